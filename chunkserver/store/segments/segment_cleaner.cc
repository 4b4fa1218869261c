#include "chunkserver/store/segments/segment_cleaner.h"

#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kClean{"chunkserver.segment_clean", {"live_bytes", "segment_bytes"}};
/// Records that are read into memory and then appended together, so that they share a sync.
constexpr size_t kCopiesAtOnce = 32;
constexpr size_t kTombstonesAtOnce = kMaxTombstonesPerRecord;

}  // namespace

/// A record on its way to the appender, with the memory that it was read into.
struct SegmentCleaner::Copy {
  Copy(const runtime::Runtime& runtime, RecordHeader header, AlignedMemory memory, uint64_t data_bytes)
      : memory(std::move(memory)),
        record(runtime, std::move(header),
               data_bytes == 0 ? std::span<std::byte>{}
                               : this->memory.span().subspan(kRecordHeaderBytes, data_bytes)) {
    record.is_copy = true;
  }
  AlignedMemory memory;
  SegmentAppender::Record record;
};

void SegmentCleaner::start(runtime::TaskGroup& tasks) {
  tasks.spawn(run(tasks));
}

asio::awaitable<void> SegmentCleaner::run(runtime::TaskGroup& tasks) {
  while (true) {
    const bool slept = co_await tasks.sleep_for(limits_.clean_interval);
    if (!slept || disk_.failed()) co_return;
    while (appender_.accepts()) {
      auto cleaned = co_await clean_one(Context{});
      if (!cleaned)
        log::warning("disk {}: cleaning a segment: {}", disk_.root(), cleaned.error().to_string());
      if (!cleaned || !*cleaned) break;
    }
  }
}

asio::awaitable<Result<bool>> SegmentCleaner::clean_one(Context context) {
  // One at a time: two would choose the same segment.
  if (cleaning_) co_return false;
  std::shared_ptr<Segment> segment = index_.deadest(limits_.clean_below, appender_.active());
  if (!segment) co_return false;
  cleaning_ = true;
  Status status = co_await clean(context, std::move(segment));
  cleaning_ = false;
  if (!status.ok()) co_return status;
  co_return true;
}

// The order is the proof: every live record and every tombstone that is still needed is durable elsewhere before the
// file goes. Nothing new comes to the segment meanwhile, because it is not the active one.
asio::awaitable<Status> SegmentCleaner::clean(Context context, std::shared_ptr<Segment> segment) {
  sight::Module module{context, kClean, {double(segment->live_bytes), double(segment->end)}};
  Status status = co_await copy_live(*segment);
  if (status.ok()) status = co_await copy_tombstones(*segment);
  if (status.ok()) status = co_await delete_segment(*segment);
  co_return module.finish(std::move(status));
}

asio::awaitable<Status> SegmentCleaner::copy_live(const Segment& segment) {
  Copies copies;
  for (size_t position = 0; position < segment.records.size(); ++position) {
    if (!index_.is_live(segment, position)) continue;
    KINTSUGI_CO_ASSIGN(std::unique_ptr<Copy> copy, co_await read(segment, position));
    if (copy) copies.push_back(std::move(copy));
    if (copies.size() == kCopiesAtOnce) KINTSUGI_CO_TRY(co_await append(std::exchange(copies, {})));
  }
  co_return co_await append(std::move(copies));
}

asio::awaitable<Result<std::unique_ptr<SegmentCleaner::Copy>>> SegmentCleaner::read(const Segment& segment,
                                                                                    size_t position) {
  const SegmentRecord record = segment.records[position];
  const ChunkId id = record.info.id;
  AlignedMemory memory(record.record_bytes());
  auto read = co_await segment.file->read(record.offset, memory.span());
  if (!read) {
    Status failed = disk_.note(read.error());
    // Removed or replaced meanwhile: nobody needs it any more.
    if (!index_.is_live(segment, position)) co_return std::unique_ptr<Copy>();
    // The record is lost alone. Its owner drops it, so that the next attempt finds the segment without it.
    if (failed.code() == Code::kMediumError) on_corrupt(id);
    co_return failed;
  }
  auto header = decode_record_header(memory.first(*read), segment.salt, record.offset);
  if (header && header->info == record.info && *read >= kRecordHeaderBytes + record.info.length) {
    // The data goes along as it is: a block that is damaged stays so, with its CRC in the header to tell its readers.
    co_return std::make_unique<Copy>(runtime_, std::move(*header), std::move(memory), record.info.length);
  }
  if (!index_.is_live(segment, position)) co_return std::unique_ptr<Copy>();
  on_corrupt(id);
  co_return Status{Code::kCorrupt, fmt::format("record of chunk {}", id)};
}

asio::awaitable<Status> SegmentCleaner::copy_tombstones(const Segment& segment) {
  Copies copies;
  for (const Tombstone& tombstone : segment.tombstones) {
    if (!index_.is_needed(segment, tombstone)) continue;
    RecordHeader header;
    header.tombstones.push_back(tombstone);
    copies.push_back(std::make_unique<Copy>(runtime_, std::move(header), AlignedMemory(), 0));
    if (copies.size() == kTombstonesAtOnce) KINTSUGI_CO_TRY(co_await append(std::exchange(copies, {})));
  }
  co_return co_await append(std::move(copies));
}

asio::awaitable<Status> SegmentCleaner::append(Copies copies) {
  if (copies.empty()) co_return Status{};
  if (!appender_.accepts()) co_return Status{Code::kCancelled, "the store is stopping"};
  for (auto& copy : copies)
    appender_.enqueue(copy->record);
  // All are waited for, also after an error: the appender has their addresses.
  Status status;
  for (auto& copy : copies) {
    Status one = co_await appender_.wait(copy->record);
    if (status.ok()) status = std::move(one);
  }
  co_return status;
}

asio::awaitable<Status> SegmentCleaner::delete_segment(const Segment& segment) {
  if (segment.live_bytes != 0) co_return Status{Code::kConflict, "the segment still has live chunks"};
  Status removed = disk_.note(co_await disk_.disk().remove(segment.path));
  // It may have been given up because it is gone.
  if (removed.code() != Code::kNotFound) KINTSUGI_CO_TRY(std::move(removed));
  index_.drop_segment(segment);
  if (segment.file) on_delete(*segment.file);
  // Until the directory is synced a power loss may bring the file back, and only tombstones keep its records dead then.
  KINTSUGI_CO_TRY(disk_.note(co_await disk_.disk().sync_directory(disk_.segments_directory())));
  index_.forget_segment(segment);
  co_return Status{};
}

}  // namespace kintsugi::chunkserver

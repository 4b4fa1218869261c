#include "chunkserver/store/segments/segment_log.h"

#include "chunkserver/store/disk/disk_wait.h"
#include "chunkserver/store/segments/segment_loader.h"
#include "common/log/log.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kAppend{"chunkserver.segment_append", {"bytes"}};
constexpr sight::Site kRemove{"chunkserver.segment_remove"};

std::shared_ptr<OpenChunk> open_record(DataDisk& disk, const Segment& segment, const SegmentRecord& record,
                                       std::vector<uint32_t> block_crcs) {
  return std::make_shared<OpenChunk>(OpenChunk{.info = record.info,
                                               .disk = &disk,
                                               .file = segment.file,
                                               .data_offset = record.offset + kRecordHeaderBytes,
                                               .block_crcs = std::move(block_crcs)});
}

}  // namespace

SegmentLog::SegmentLog(const runtime::Runtime& runtime, DataDisk& disk, SegmentLimits limits)
    : runtime_(runtime),
      disk_(disk),
      limits_(limits),
      appender_(runtime, disk, limits_, index_),
      cleaner_(runtime, disk, limits_, index_, appender_) {}

asio::awaitable<Status> SegmentLog::load() {
  KINTSUGI_CO_ASSIGN(const uint64_t damaged, co_await load_segments(disk_, index_));
  if (damaged > 0) log::warning("disk {}: {} damaged places in segments", disk_.root(), damaged);
  if (!index_.segments().empty()) disk_.keep_free(limits_.room_to_clean());
  co_return Status{};
}

void SegmentLog::start(runtime::TaskGroup& tasks) {
  appender_.start(tasks);
  cleaner_.start(tasks);
}

asio::awaitable<Status> SegmentLog::append(Context context, ChunkHeader header,
                                           std::vector<uint32_t> block_crcs,
                                           std::span<const std::byte> data) {
  sight::Module module{context, kAppend, {double(data.size())}};
  KINTSUGI_ASSERT(header.info.length == data.size() && data.size() <= kSmallChunkBytes);
  if (!appender_.accepts()) co_return module.finish({Code::kCancelled, "the store is stopping"});
  RecordHeader record_header;
  record_header.info = header.info;
  record_header.policy = std::move(header.policy);
  record_header.block_crcs = std::move(block_crcs);
  // Taken in the order of the calls, which is the order of the queue: what was asked for last wins, at once and after
  // a restart.
  record_header.sequence = index_.take_sequence();
  SegmentAppender::Record record(runtime_, std::move(record_header), data);
  const DiskWait wait(module.context(), disk_, {.written = data.size()});
  co_return module.finish(co_await appender_.append(record));
}

asio::awaitable<Status> SegmentLog::remove(Context context, ChunkId id) {
  sight::Module module{context, kRemove};
  const SegmentIndex::Live* live = index_.find(id);
  if (live == nullptr || live->removing) co_return module.finish(not_here(id));
  if (!appender_.accepts()) co_return module.finish({Code::kCancelled, "the store is stopping"});
  index_.set_removing(id, true);
  RecordHeader header;
  header.tombstones.push_back({id, index_.take_sequence()});
  SegmentAppender::Record record(runtime_, std::move(header));
  const DiskWait wait(module.context(), disk_);
  Status status = co_await appender_.append(record);
  // The cleaner may have moved the record meanwhile, but nobody else may have buried it.
  if (!status.ok() && index_.find(id) != nullptr) index_.set_removing(id, false);
  co_return module.finish(std::move(status));
}

void SegmentLog::give_up(const std::shared_ptr<Segment>& segment, uint64_t bytes) {
  if (segment->given_up || !index_.holds(*segment)) return;
  log::error("segment {} was removed or cut off: what can be read is moved elsewhere", segment->path);
  appender_.give_up(*segment);
  for (ChunkId id : index_.chunks_beyond(*segment, bytes))
    cleaner_.on_corrupt(id);
}

asio::awaitable<Result<std::shared_ptr<OpenChunk>>> SegmentLog::open(ChunkId id) {
  const SegmentIndex::Live* found = index_.find(id);
  if (found == nullptr || found->removing) co_return not_here(id);
  // A copy, which keeps the segment's file open: the cleaner may delete it while this one is read.
  const SegmentIndex::Live live = *found;
  AlignedMemory memory(kRecordHeaderBytes);
  const SegmentRecord record = live.record();
  auto read = co_await live.segment->file->read(record.offset, memory.span());
  if (!read) co_return disk_.note(read.error());
  KINTSUGI_CO_ASSIGN(RecordHeader header,
                     decode_record_header(memory.first(*read), live.segment->salt, record.offset));
  if (header.info != record.info || !header.is_chunk())
    co_return Status{Code::kCorrupt, "record names another chunk"};
  co_return open_record(disk_, *live.segment, record, std::move(header.block_crcs));
}

std::shared_ptr<OpenChunk> SegmentLog::open_one_block(ChunkId id) const {
  const SegmentIndex::Live* live = index_.find(id);
  if (live == nullptr || live->removing) return nullptr;
  const SegmentRecord& record = live->record();
  if (blocks_of(record.info.length) != 1) return nullptr;
  return open_record(disk_, *live->segment, record, {record.info.crc});
}

}  // namespace kintsugi::chunkserver

#include "chunkserver/store/segments/segment_loader.h"

#include <algorithm>

#include "chunkserver/store/disk/aligned_memory.h"
#include "chunkserver/store/disk/chunk_format.h"
#include "chunkserver/store/segments/segment_sealer.h"
#include "common/log/log.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint64_t kScanBytes = 1 << 20;

using Records = std::vector<RecordHeader>;

struct Scan {
  Records records;
  uint64_t damaged = 0;
  /// Some part gave a medium error. The segment is left as it is, because the error may pass.
  bool unreadable = false;
};

/// Reads a window of the segment. What the medium cannot give is zeros, which are no record: only what lies there is
/// lost.
asio::awaitable<Result<size_t>> read_window(DataDisk& disk, runtime::File& file, uint64_t offset,
                                            std::span<std::byte> into, bool& unreadable) {
  auto all = co_await file.read(offset, into);
  if (all) co_return *all;
  const Status failed = disk.note(all.error());
  if (failed.code() != Code::kMediumError) co_return failed;
  unreadable = true;
  size_t done = 0;
  while (done < into.size()) {
    const auto block = into.subspan(done, runtime::kDiskAlignment);
    auto one = co_await file.read(offset + done, block);
    if (!one && one.error().code() != Code::kMediumError) co_return disk.note(one.error());
    if (!one) std::ranges::fill(block, std::byte{});
    const size_t got = one ? *one : block.size();
    done += got;
    if (got < block.size()) break;  // the end of the file
  }
  co_return done;
}

/// All headers that belong at their places. What is damaged is skipped: a record is believed only at its own place, so
/// that the search can continue at every 4 KiB border.
asio::awaitable<Result<Scan>> scan(DataDisk& disk, const Segment& segment, uint64_t size) {
  Scan scan;
  AlignedMemory window(kScanBytes);
  uint64_t offset = 0;
  uint64_t expected = 0;  // offset of the next record if nothing is damaged
  while (offset + kRecordHeaderBytes <= size) {
    auto read = co_await read_window(disk, *segment.file, offset, window.span(), scan.unreadable);
    if (!read) co_return read.error();
    uint64_t at = 0;
    while (at + kRecordHeaderBytes <= *read) {
      auto header =
          decode_record_header(window.span().subspan(at, kRecordHeaderBytes), segment.salt, offset + at);
      if (!header || offset + at + header->record_bytes() > size) {
        at += runtime::kDiskAlignment;
        continue;
      }
      if (offset + at != expected) ++scan.damaged;
      at += header->record_bytes();
      expected = offset + at;
      scan.records.push_back(std::move(*header));
    }
    if (at == 0) break;  // the file has become shorter
    offset += at;
  }
  co_return scan;
}

asio::awaitable<Result<bool>> data_is_whole(DataDisk& disk, const Segment& segment,
                                            const RecordHeader& header) {
  const uint64_t length = header.info.length;
  if (length == 0) co_return true;
  AlignedMemory data(length);
  auto read = co_await segment.file->read(header.offset + kRecordHeaderBytes, data.span());
  // What cannot be read is not known to be torn: its first reader drops it.
  if (!read && disk.note(read.error()).code() == Code::kMediumError) co_return true;
  if (!read) co_return read.error();
  if (*read < length) co_return false;
  co_return check_blocks(data.first(length), header.block_crcs, 0).ok();
}

/// Takes out the records of the last group whose data did not reach the disk. Groups are synced one after the other, so
/// that only the last one may be torn, and none of a torn group was acknowledged.
asio::awaitable<Status> drop_torn(DataDisk& disk, const Segment& segment, Scan& scan) {
  if (scan.records.empty()) co_return Status{};
  const uint64_t last_group = scan.records.back().group;
  Records whole;
  for (RecordHeader& header : scan.records) {
    if (header.is_chunk() && header.group == last_group) {
      KINTSUGI_CO_ASSIGN(const bool is_whole, co_await data_is_whole(disk, segment, header));
      if (!is_whole) {
        ++scan.damaged;
        continue;
      }
    }
    whole.push_back(std::move(header));
  }
  scan.records = std::move(whole);
  co_return Status{};
}

void take_records(Segment& segment, const Records& records) {
  segment.last_group = records.back().group;
  for (const RecordHeader& header : records) {
    if (header.is_chunk()) {
      segment.records.push_back({header.info, header.offset, header.sequence});
    } else {
      segment.tombstones.insert(segment.tombstones.end(), header.tombstones.begin(), header.tombstones.end());
    }
  }
}

asio::awaitable<Result<uint64_t>> load_segment(DataDisk& disk, const std::string& file_name, SegmentName name,
                                               SegmentIndex& index) {
  auto segment = std::make_shared<Segment>();
  segment->number = name.number;
  segment->salt = name.salt;
  segment->path = disk.segments_directory() + "/" + file_name;
  auto file = co_await disk.disk().open(segment->path, runtime::OpenMode::kReadWrite);
  // A file system that became read-only still serves what it has.
  if (!file && disk.note(file.error()).code() == Code::kReadOnlyDevice)
    file = co_await disk.disk().open(segment->path, runtime::OpenMode::kRead);
  if (!file) co_return disk.note(file.error());
  segment->file = std::move(*file);
  auto size = co_await segment->file->size();
  if (!size) co_return disk.note(size.error());
  KINTSUGI_CO_ASSIGN(const bool is_sealed, co_await read_footer(disk, *segment, *size));
  if (is_sealed) {
    segment->allocated = *size;
    index.load(segment);
    co_return uint64_t{0};
  }
  KINTSUGI_CO_ASSIGN(Scan found, co_await scan(disk, *segment, *size));
  KINTSUGI_CO_TRY(co_await drop_torn(disk, *segment, found));
  if (found.records.empty()) {
    segment->file.reset();
    if (!disk.takes_writes() || found.unreadable) co_return found.damaged;
    KINTSUGI_CO_TRY(disk.note(co_await disk.disk().remove(segment->path)));
    co_return found.damaged;
  }
  segment->end = found.records.back().offset + found.records.back().record_bytes();
  segment->allocated = segment->end;
  take_records(*segment, found.records);
  index.load(segment);
  if (!disk.takes_writes() || found.unreadable) co_return found.damaged;
  if (segment->end < *size) {
    // So that what is torn is not found again: at the next start it would not be the last group any more.
    KINTSUGI_CO_TRY(disk.note(co_await segment->file->truncate(segment->end)));
  }
  // Also for the footer: what it lists is not looked at again, and the last group may never have been synced.
  const Status synced = disk.note(co_await segment->file->sync());
  if (synced.ok()) co_await seal(disk, segment);
  co_return found.damaged;
}

}  // namespace

asio::awaitable<Result<uint64_t>> load_segments(DataDisk& disk, SegmentIndex& index) {
  auto names = co_await disk.disk().list(disk.segments_directory());
  if (!names) co_return disk.note(names.error());
  uint64_t damaged = 0;
  for (const std::string& file_name : *names) {
    auto name = parse_segment_file_name(file_name);
    if (!name) {
      log::warning("{}/{} is no segment and is left alone", disk.segments_directory(), file_name);
      continue;
    }
    KINTSUGI_CO_TRY(disk.check_answers());
    index.saw_segment_number(name->number);
    KINTSUGI_CO_ASSIGN(const uint64_t in_this, co_await load_segment(disk, file_name, *name, index));
    damaged += in_this;
  }
  index.settle();
  co_return damaged;
}

}  // namespace kintsugi::chunkserver

#include "chunkserver/store/segments/segment_sealer.h"

#include <algorithm>

#include "chunkserver/store/segments/segment_footer.h"
#include "common/log/log.h"

namespace kintsugi::chunkserver {
namespace {

/// Read at once from the end of a segment: the whole footer unless it has thousands of entries.
constexpr uint64_t kTailBytes = 64 << 10;

asio::awaitable<Status> write_footer(Segment& segment) {
  const AlignedMemory footer = encode_footer(segment);
  // The space that was set aside for more records is given back first: the file must end with its footer.
  KINTSUGI_CO_TRY(co_await segment.file->truncate(segment.end));
  // No sync: the records are durable, and a footer that is torn is no footer.
  co_return co_await segment.file->write(segment.end, footer.span());
}

/// Whether so many bytes could be read. What the medium cannot give is no footer.
Result<bool> was_read(DataDisk& disk, const Result<size_t>& read, uint64_t bytes) {
  if (read) return *read >= bytes;
  const Status failed = disk.note(read.error());
  if (failed.code() != Code::kMediumError) return failed;
  return false;
}

}  // namespace

asio::awaitable<void> seal(DataDisk& disk, std::shared_ptr<Segment> segment) {
  if (segment->given_up || !disk.takes_writes()) co_return;
  segment->records.shrink_to_fit();
  segment->tombstones.shrink_to_fit();
  const Status sealed = disk.note(co_await write_footer(*segment));
  if (!sealed.ok() && sealed.code() != Code::kCancelled)
    log::warning("segment {}: its footer cannot be written, so the next start reads the whole segment: {}",
                 segment->path, sealed.to_string());
}

asio::awaitable<Result<bool>> read_footer(DataDisk& disk, Segment& segment, uint64_t file_bytes) {
  if (file_bytes == 0 || file_bytes % runtime::kDiskAlignment != 0) co_return false;
  AlignedMemory footer(std::min(kTailBytes, file_bytes));
  auto read = co_await segment.file->read(file_bytes - footer.size(), footer.span());
  KINTSUGI_CO_ASSIGN(const bool has_tail, was_read(disk, read, footer.size()));
  if (!has_tail) co_return false;
  const auto bytes = footer_bytes(footer.span().last(runtime::kDiskAlignment), segment.salt, file_bytes);
  if (!bytes) co_return false;
  if (*bytes > footer.size()) {
    footer = AlignedMemory(*bytes);
    read = co_await segment.file->read(file_bytes - *bytes, footer.span());
    KINTSUGI_CO_ASSIGN(const bool is_whole, was_read(disk, read, *bytes));
    if (!is_whole) co_return false;
  }
  co_return decode_footer(footer.span().last(*bytes), segment).ok();
}

}  // namespace kintsugi::chunkserver

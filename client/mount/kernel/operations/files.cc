#include "client/mount/kernel/operations/files.h"

#include <climits>

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/mount/kernel/operations/answers.h"
#include "common/base/errno_of.h"
#include "common/log/log.h"

namespace kintsugi::mount::serve {
namespace {

OpenFlags flags_of(uint32_t flags, uint32_t open_flags) {
  return {.flags = static_cast<int>(flags), .kill_setid = (open_flags & FUSE_OPEN_KILL_SUIDGID) != 0};
}

NewNode file_of(const fuse_create_in& head) {
  return {.mode = (head.mode & ~uint32_t{S_IFMT}) | S_IFREG, .umask = head.umask};
}

}  // namespace

asio::awaitable<int> open(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_open_in>();
  if (in.error() != 0) co_return in.error();
  co_return answer_opened(
      request,
      co_await served.file_system.open(request.caller, request.node, flags_of(head.flags, head.open_flags)),
      false);
}

asio::awaitable<int> create(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_create_in>();
  const auto name = in.new_name();
  if (in.error() != 0) co_return in.error();
  co_return answer_created(
      request, co_await served.file_system.create(request.caller, request.node, name, file_of(head),
                                                  flags_of(head.flags, head.open_flags)));
}

asio::awaitable<int> create_nameless(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_create_in>();
  // The kernel sends "/" for a name.
  (void)in.text(NAME_MAX, ENAMETOOLONG);
  if (in.error() != 0) co_return in.error();
  co_return answer_created(
      request, co_await served.file_system.create_nameless(request.caller, request.node, file_of(head),
                                                           flags_of(head.flags, head.open_flags)));
}

asio::awaitable<int> read(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_read_in>();
  in.check_range(head.offset, head.size);
  if (head.size > served.agreed.max_read_bytes) in.fail(EINVAL);
  if (in.error() != 0) co_return in.error();
  const ReadRequest read{.handle = head.fh, .offset = head.offset, .bytes = head.size};
  auto answer = co_await served.file_system.read(request.caller, request.node, read);
  if (!answer) co_return errno_of(answer.error());
  size_t bytes = 0;
  for (const auto& range : answer->ranges)
    bytes += range.size();
  if (bytes > head.size || answer->ranges.size() > kMaxReadRanges) {
    log::error("a read of {} bytes was answered with {} bytes in {} ranges", head.size, bytes,
               answer->ranges.size());
    co_return EIO;
  }
  request.reply.data = std::move(*answer);
  co_return 0;
}

asio::awaitable<int> write(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_write_in>();
  in.check_range(head.offset, head.size);
  const auto data = in.data(head.size);
  if (in.left() != 0) in.fail(EINVAL);
  if (in.error() != 0) co_return in.error();
  const WriteRequest write{.handle = head.fh,
                           .offset = head.offset,
                           .data = data,
                           .flags = static_cast<int>(head.flags),
                           .from_page_cache = (head.write_flags & FUSE_WRITE_CACHE) != 0,
                           .kill_setid = (head.write_flags & FUSE_WRITE_KILL_SUIDGID) != 0};
  const auto written = co_await served.file_system.write(request.caller, request.node, write);
  if (!written) co_return errno_of(written.error());
  if (*written > head.size) co_return EIO;
  fuse_write_out out{};
  out.size = *written;
  request.reply.put(out);
  co_return 0;
}

asio::awaitable<int> flush(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_flush_in>();
  if (in.error() != 0) co_return in.error();
  co_return errno_of(
      co_await served.file_system.flush(request.caller, request.node, head.fh, head.lock_owner));
}

asio::awaitable<int> release(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_release_in>();
  if (in.error() != 0) co_return in.error();
  const ReleaseRequest release{.handle = head.fh,
                               .lock_owner = head.lock_owner,
                               .unlock_flock = (head.release_flags & FUSE_RELEASE_FLOCK_UNLOCK) != 0};
  co_return errno_of(co_await served.file_system.release(request.caller, request.node, release));
}

asio::awaitable<int> fsync(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_fsync_in>();
  if (in.error() != 0) co_return in.error();
  co_return errno_of(co_await served.file_system.fsync(request.caller, request.node, head.fh));
}

asio::awaitable<int> allocate(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_fallocate_in>();
  in.check_range(head.offset, head.length);
  if (in.error() != 0) co_return in.error();
  co_return errno_of(co_await served.file_system.allocate(
      request.caller, request.node, head.fh, static_cast<int>(head.mode), head.offset, head.length));
}

asio::awaitable<int> seek(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_lseek_in>();
  if (head.whence != SEEK_DATA && head.whence != SEEK_HOLE) in.fail(EINVAL);
  if (in.error() == 0 && head.offset > INT64_MAX) in.fail(ENXIO);
  if (in.error() != 0) co_return in.error();
  const auto found =
      co_await served.file_system.seek(request.caller, request.node, head.fh, head.offset,
                                       head.whence == SEEK_DATA ? SeekTo::kData : SeekTo::kHole);
  if (!found) co_return errno_of(found.error());
  fuse_lseek_out out{};
  out.offset = *found;
  request.reply.put(out);
  co_return 0;
}

asio::awaitable<int> copy_range(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_copy_file_range_in>();
  // The answer has 32 bits.
  const uint64_t bytes = std::min<uint64_t>(head.len, UINT32_MAX & ~uint32_t{4095});
  in.check_range(head.off_in, bytes);
  in.check_range(head.off_out, bytes);
  if (head.flags != 0) in.fail(EINVAL);
  if (in.error() != 0) co_return in.error();
  const CopyRange range{.from = request.node,
                        .from_handle = head.fh_in,
                        .from_offset = head.off_in,
                        .to = head.nodeid_out,
                        .to_handle = head.fh_out,
                        .to_offset = head.off_out,
                        .bytes = bytes};
  const auto copied = co_await served.file_system.copy_range(request.caller, range);
  if (!copied) co_return errno_of(copied.error());
  if (*copied > bytes) co_return EIO;
  fuse_write_out out{};
  out.size = static_cast<uint32_t>(*copied);
  request.reply.put(out);
  co_return 0;
}

}  // namespace kintsugi::mount::serve

#include "client/mount/kernel/operations/directories.h"

#include <algorithm>

#include "client/mount/kernel/directory_buffer.h"
#include "client/mount/kernel/operations/answers.h"
#include "common/base/errno_of.h"

namespace kintsugi::mount::serve {
namespace {

/// A listing is answered in parts of at most so many bytes, however many are asked for.
constexpr uint32_t kMaxListingBytes = 128 << 10;

asio::awaitable<int> list(const Served& served, Request& request, Arguments in, bool plus) {
  const auto head = in.take<fuse_read_in>();
  if (head.size > served.agreed.max_read_bytes) in.fail(EINVAL);
  if (in.error() != 0) co_return in.error();
  DirectoryBuffer listing(request.reply.text, std::min(head.size, kMaxListingBytes), plus);
  const Status status = co_await served.file_system.read_directory(request.caller, request.node, head.fh,
                                                                   head.offset, plus, listing);
  request.granted.listed = plus;
  // What was packed before an error is good, and the error comes again when the rest is asked for.
  if (!status.ok() && request.reply.text.empty()) co_return errno_of(status);
  co_return 0;
}

}  // namespace

asio::awaitable<int> open_directory(const Served& served, Request& request, Arguments in) {
  in.take<fuse_open_in>();
  if (in.error() != 0) co_return in.error();
  co_return answer_opened(request, co_await served.file_system.open_directory(request.caller, request.node),
                          true);
}

asio::awaitable<int> read_directory(const Served& served, Request& request, Arguments in) {
  return list(served, request, in, false);
}

asio::awaitable<int> read_directory_plus(const Served& served, Request& request, Arguments in) {
  return list(served, request, in, true);
}

asio::awaitable<int> fsync_directory(const Served& served, Request& request, Arguments in) {
  in.take<fuse_fsync_in>();
  if (in.error() != 0) co_return in.error();
  co_return errno_of(co_await served.file_system.fsync_directory(request.caller, request.node));
}

asio::awaitable<int> release_directory(const Served& served, Request& request, Arguments in) {
  const auto head = in.take<fuse_release_in>();
  if (in.error() != 0) co_return in.error();
  co_return errno_of(co_await served.file_system.release_directory(request.caller, request.node, head.fh));
}

}  // namespace kintsugi::mount::serve

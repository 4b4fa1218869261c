#include "client/mount/kernel/operations/locks.h"

#include <algorithm>

#include <fcntl.h>

#include "common/base/errno_of.h"

namespace kintsugi::mount::serve {
namespace {

LockRequest lock_of(Arguments& in) {
  const auto head = in.take<fuse_lk_in>();
  LockRequest request{.handle = head.fh,
                      .owner = head.owner,
                      .lock = {.start = head.lk.start, .end = head.lk.end, .pid = head.lk.pid},
                      .flock = (head.lk_flags & FUSE_LK_FLOCK) != 0};
  switch (head.lk.type) {
    case F_RDLCK: request.lock.type = LockType::kRead; break;
    case F_WRLCK: request.lock.type = LockType::kWrite; break;
    case F_UNLCK: request.lock.type = LockType::kUnlock; break;
    default: in.fail(EINVAL);
  }
  if (head.lk.end < head.lk.start || head.lk.start > INT64_MAX) in.fail(EINVAL);
  return request;
}

}  // namespace

asio::awaitable<int> get_lock(const Served& served, Request& request, Arguments in) {
  const LockRequest lock = lock_of(in);
  if (in.error() != 0) co_return in.error();
  const auto holder = co_await served.file_system.get_lock(request.caller, request.node, lock);
  if (!holder) co_return errno_of(holder.error());
  fuse_lk_out out{};
  out.lk.start = holder->start;
  out.lk.end = std::min<uint64_t>(holder->end, INT64_MAX);
  out.lk.type = holder->type == LockType::kRead    ? F_RDLCK
                : holder->type == LockType::kWrite ? F_WRLCK
                                                   : F_UNLCK;
  out.lk.pid = holder->pid;
  request.reply.put(out);
  co_return 0;
}

asio::awaitable<int> set_lock(const Served& served, Request& request, Arguments in) {
  const LockRequest lock = lock_of(in);
  if (in.error() != 0) co_return in.error();
  co_return errno_of(co_await served.file_system.set_lock(request.caller, request.node, lock));
}

asio::awaitable<int> wait_for_lock(const Served& served, Request& request, Arguments in) {
  LockRequest lock = lock_of(in);
  if (in.error() != 0) co_return in.error();
  lock.wait = true;
  co_return errno_of(co_await served.file_system.set_lock(request.caller, request.node, lock));
}

}  // namespace kintsugi::mount::serve

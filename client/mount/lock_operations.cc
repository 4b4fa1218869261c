#include "client/mount/lock_operations.h"

#include "common/runtime/backoff.h"

namespace kintsugi::mount {
namespace {

constexpr uint64_t kLockEnd = (uint64_t{1} << 63) - 1;
constexpr Duration kFirstLockPause = 5ms, kLongestLockPause = 200ms;

}  // namespace

proto::LockRequest LockOperations::lock_request(NodeId node, const LockRequest& request) const {
  proto::LockRequest wanted;
  wanted.set_inode(node);
  wanted.set_whole_file(request.flock);
  proto::FileLock& lock = *wanted.mutable_lock();
  lock.set_type(request.lock.type == LockType::kRead    ? proto::FileLock::SHARED
                : request.lock.type == LockType::kWrite ? proto::FileLock::EXCLUSIVE
                                                        : proto::FileLock::NONE);
  lock.set_begin(request.flock ? 0 : request.lock.start);
  lock.set_end(request.flock ? kLockEnd : std::min(request.lock.end, kLockEnd));
  lock.set_session(files_.session().id());
  lock.set_owner(request.owner);
  lock.set_pid(request.lock.pid);
  return wanted;
}

asio::awaitable<Status> LockOperations::unlock(const Caller& caller, NodeId node, LockOwner owner,
                                               bool whole_file) {
  LockRequest request;
  request.owner = owner;
  request.flock = whole_file;
  return give_back(caller, node, request);
}

asio::awaitable<Status> LockOperations::give_back(const Caller& caller, NodeId node, LockRequest request) {
  request.lock.type = LockType::kUnlock;
  const auto done = co_await files_.locks().lock(caller.context, lock_request(node, request));
  co_return done ? Status{} : done.error();
}

asio::awaitable<Result<Lock>> LockOperations::get_lock(const Caller& caller, NodeId node,
                                                       const LockRequest& request) {
  proto::LockRequest wanted = lock_request(node, request);
  wanted.set_test_only(true);
  const auto found = co_await files_.locks().lock(caller.context, std::move(wanted));
  if (!found) co_return found.error();
  Lock lock;
  if (found->granted()) co_return lock;
  const proto::FileLock& other = found->conflict();
  lock.type = other.type() == proto::FileLock::SHARED ? LockType::kRead : LockType::kWrite;
  lock.start = other.begin();
  lock.end = other.end();
  lock.pid = other.session() == files_.session().id() ? other.pid() : 0;
  co_return lock;
}

asio::awaitable<Status> LockOperations::set_lock(const Caller& caller, NodeId node,
                                                 const LockRequest& request) {
  const bool takes = !request.flock && request.lock.type != LockType::kUnlock;
  if (const auto file = handles_.find(request.handle); takes && file) file->lock_owners.insert(request.owner);
  runtime::Backoff backoff(random_, kFirstLockPause, kLongestLockPause);
  while (true) {
    proto::LockRequest wanted = lock_request(node, request);
    wanted.set_waits(request.wait);
    const auto answer = co_await files_.locks().lock(caller.context, std::move(wanted));
    if (!answer) co_return answer.error();
    if (answer->granted()) {
      if (caller.interrupt->abandoned()) (void)co_await give_back(caller, node, request);
      co_return Status{};
    }
    if (!request.wait) co_return Status{Code::kWouldBlock, "somebody else has the lock"};
    const Status interrupted{Code::kInterrupted, "the wait for a lock was interrupted"};
    if (caller.interrupt->requested()) co_return interrupted;
    const runtime::Wait wait(caller.context, runtime::WaitKind::kTimer);
    if (!co_await tasks_.sleep_for(backoff.next())) co_return interrupted;
    if (caller.interrupt->requested()) co_return interrupted;
  }
}

}  // namespace kintsugi::mount

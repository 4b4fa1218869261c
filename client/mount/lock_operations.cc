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
  request.lock.type = LockType::kUnlock;
  const auto done = co_await files_.locks().lock(caller.context, lock_request(node, request));
  co_return done ? Status{} : done.error();
}

asio::awaitable<void> LockOperations::give_back(const Caller& caller, proto::LockRequest wanted,
                                                std::vector<proto::FileLock> before) {
  wanted.clear_waits();
  const uint64_t begin = wanted.lock().begin(), end = wanted.lock().end();
  // What it had comes first: were all given back before, others could take that. A shared lock for which it gave up an
  // exclusive one stays shared if others have one there by now.
  for (const proto::FileLock& lock : before) {
    *wanted.mutable_lock() = lock;
    (void)co_await files_.locks().lock(caller.context, wanted);
  }
  wanted.mutable_lock()->set_type(proto::FileLock::NONE);
  uint64_t rest = begin;
  before.emplace_back().set_begin(end + 1);
  for (const proto::FileLock& lock : before) {
    if (rest < lock.begin()) {
      wanted.mutable_lock()->set_begin(rest);
      wanted.mutable_lock()->set_end(lock.begin() - 1);
      (void)co_await files_.locks().lock(caller.context, wanted);
    }
    rest = lock.end() + 1;
  }
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
    std::vector<proto::FileLock> before =
        files_.session().locks().own().table().owned(InodeId{node}, wanted.lock(), request.flock);
    const auto answer = co_await files_.locks().lock(caller.context, wanted);
    if (!answer) co_return answer.error();
    if (answer->granted()) {
      // One that was given back stays given back.
      if (caller.interrupt->abandoned() && request.lock.type != LockType::kUnlock)
        co_await give_back(caller, std::move(wanted), std::move(before));
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

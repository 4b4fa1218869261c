#include "client/lib/leases/leased_locks.h"

namespace kintsugi::client {
namespace {

constexpr Duration kPause = 200ms;  ///< pause before the metaserver is told once more
constexpr Duration kForEver = std::chrono::hours(24 * 365);

bool takes(const proto::LockRequest& request) {
  return request.lock().type() != proto::FileLock::NONE;
}

}  // namespace

LeasedLocks::LeasedLocks(Resources& resources, InodeCalls& calls, LeaseUser& user, Duration io_timeout)
    : resources_(resources),
      session_(calls.session()),
      calls_(calls),
      user_(user),
      io_timeout_(io_timeout == Duration{} ? kForEver : io_timeout),
      answered_(resources.runtime),
      telling_(resources.runtime, 1) {}

asio::awaitable<Result<proto::LockResponse>> LeasedLocks::lock(Context context, proto::LockRequest request) {
  const uint64_t inode = request.inode();
  const TimePoint give_up = resources_.now() + io_timeout_;
  while (true) {
    switch (session_.locks_at(inode, takes(request))) {
      case Session::LocksAt::kMetaserver: co_return co_await ask(context, std::move(request));
      case Session::LocksAt::kHere:
        if (!asked_.contains(inode)) co_return decide(request);
        // Calls for locks of this inode from before the lease came are still under way: their answers change what is
        // decided here.
        {
          const runtime::Wait wait(context, runtime::WaitKind::kResource,
                                   runtime::named_target(context, "answers to locks"));
          co_await answered_.wait();
        }
        break;
      case Session::LocksAt::kUnclear: {
        const Status told = co_await tell(context, inode, takes(request));
        if (told.ok()) break;
        if (resources_.now() + kPause >= give_up) co_return told;
        const runtime::Wait wait(context, runtime::WaitKind::kTimer);
        if (!co_await resources_.background.sleep_for(kPause))
          co_return Status{Code::kCancelled, "the client is stopping"};
      }
    }
  }
}

Result<proto::LockResponse> LeasedLocks::decide(const proto::LockRequest& request) {
  proto::LockResponse response;
  const InodeId inode{request.inode()};
  const auto others = session_.locks().own().table().conflicts(inode, request.lock(), request.whole_file());
  response.set_granted(others.empty());
  if (!others.empty()) {
    *response.mutable_conflict() = others.front();
    if (request.waits() && !request.whole_file()) end_lease(request.inode());
  } else if (!request.test_only()) {
    // From here on what the metaserver knows is old, whatever becomes of this.
    session_.locks().decides(request.inode());
    KINTSUGI_ASSIGN(const bool granted, session_.locks().own().set(request));
    response.set_granted(granted);
  }
  return response;
}

asio::awaitable<Result<proto::LockResponse>> LeasedLocks::ask(Context context, proto::LockRequest request) {
  const uint64_t inode = request.inode();
  const bool waits = request.waits(), keeps = takes(request) && !request.test_only();
  ++asked_[inode];
  auto answer = co_await calls_.lock(context, std::move(request));
  const auto asked = asked_.find(inode);
  if (--asked->second == 0) asked_.erase(asked);
  answered_.notify_all();
  // One that waits may have ended the lease by that.
  if (answer && answer->granted() && keeps && !waits) want_lease(inode);
  co_return answer;
}

void LeasedLocks::end_lease(uint64_t inode) {
  if (session_.leases().has(inode)) user_.end_leases({inode});
}

void LeasedLocks::want_lease(uint64_t inode) {
  const TimePoint now = resources_.now();
  if (wanted_.size() >= kMaxWanted) wanted_.clear();
  const auto [last, first] = wanted_.try_emplace(inode, now);
  if (!first && now - last->second < kWantLeaseEvery) return;
  last->second = now;
  if (session_.leases().may_want(inode)) user_.want_lease(inode);
}

asio::awaitable<Status> LeasedLocks::tell(Context context, uint64_t inode, bool takes) {
  {
    const runtime::Wait wait(context, runtime::WaitKind::kSibling, 0, telling_span_);
    KINTSUGI_CO_TRY(co_await telling_.acquire(TimePoint::max()));
  }
  telling_span_ = context.trace.span_id;
  Status told;
  const auto is_unclear = [&] { return session_.locks_at(inode, takes) == Session::LocksAt::kUnclear; };
  // Whoever was before may have told.
  if (is_unclear()) told = co_await session_.tell(context);
  telling_.release();
  if (told.ok() && is_unclear())
    co_return Status{Code::kUnavailable, "the metaserver has not heard yet which locks there are"};
  co_return told;
}

}  // namespace kintsugi::client

/// Advisory locks: decided here, without a call, while this session has the lease of the inode; by the metaserver otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "client/lib/files/inode_calls.h"
#include "client/lib/files/session.h"
#include "client/lib/resources.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

/// While a session has the lease of an inode, nobody else has locks there: whoever wants one waits until the lease has been given
/// back, and with it the metaserver is told which locks there are. Outlives its calls.
class LeasedLocks {
 public:
  LeasedLocks(Resources& resources, Session& session, InodeCalls& calls, Duration io_timeout);

  /// Takes, tests or gives back a lock. Never waits for a lock that another one has: `granted` is false then.
  /// kDeadlock: one that waits would wait for itself; kStale; kLimitExceeded: too many locks; kUnavailable.
  asio::awaitable<Result<proto::LockResponse>> lock(Context context, proto::LockRequest request);

  /// Called when an owner waits for a range that another one has: who waits for whom on which machine only the metaserver
  /// knows, so the lease should end.
  std::function<void(uint64_t inode)> on_wait = [](uint64_t) {};

  /// Called, at most so often for an inode, when a lock was taken by a call: whoever wanted the lease may be done with it.
  std::function<void(uint64_t inode)> on_taken_by_call = [](uint64_t) {};
  static constexpr Duration kWantLeaseEvery = std::chrono::seconds(1);

 private:
  static constexpr size_t kMaxWanted = 1'000;

  Result<proto::LockResponse> decide(const proto::LockRequest& request);
  asio::awaitable<Result<proto::LockResponse>> ask(Context context, proto::LockRequest request);
  void want_lease(uint64_t inode);
  /// Tells the metaserver what it has to hear before anybody can decide.
  asio::awaitable<Status> tell(Context context, uint64_t inode, bool takes);

  Resources& resources_;
  Session& session_;
  InodeCalls& calls_;
  const Duration io_timeout_;
  std::map<uint64_t, size_t> asked_;      ///< calls that are under way, by inode
  std::map<uint64_t, TimePoint> wanted_;  ///< bounded: when on_taken_by_call() was called last
  runtime::Event answered_;
  runtime::Semaphore telling_;
  uint64_t telling_span_ = 0;  ///< the region that tells now, for those who wait for it
};

}  // namespace kintsugi::client

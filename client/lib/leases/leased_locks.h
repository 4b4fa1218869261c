/// Advisory locks: decided here, without a call, while this session has the lease of the inode; by the metaserver
/// otherwise.
#pragma once

#include <cstdint>
#include <map>

#include "client/lib/leases/inode_calls.h"
#include "client/lib/leases/lease_user.h"
#include "client/lib/leases/session.h"
#include "client/lib/resources.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

/// While a session has the lease of an inode, nobody else has locks there: whoever wants one waits until the lease has
/// been given back, and with it the metaserver is told which locks there are. Outlives its calls.
class LeasedLocks {
 public:
  LeasedLocks(Resources& resources, InodeCalls& calls, LeaseUser& user, Duration io_timeout);

  /// Takes, tests or gives back a lock. Never waits for a lock that another one has: `granted` is false then.
  /// kDeadlock: one that waits would wait for itself; kStale; kLimitExceeded: too many locks; kUnavailable.
  asio::awaitable<Result<proto::LockResponse>> lock(Context context, proto::LockRequest request);

  /// A lock was taken by a call: whoever wanted the lease of the inode may be done with it. It is asked for at most
  /// so often.
  static constexpr Duration kWantLeaseEvery = std::chrono::seconds(1);

 private:
  static constexpr size_t kMaxWanted = 1'000;

  Result<proto::LockResponse> decide(const proto::LockRequest& request);
  /// An owner waits for a range that another one has. Who waits for whom on which machine only the metaserver knows,
  /// so the lease should end.
  void end_lease(uint64_t inode);
  asio::awaitable<Result<proto::LockResponse>> ask(Context context, proto::LockRequest request);
  void want_lease(uint64_t inode);
  /// Tells the metaserver what it has to hear before anybody can decide.
  asio::awaitable<Status> tell(Context context, uint64_t inode, bool takes);

  Resources& resources_;
  Session& session_;
  InodeCalls& calls_;
  LeaseUser& user_;
  const Duration io_timeout_;
  std::map<uint64_t, size_t> asked_;      ///< calls that are under way, by inode
  std::map<uint64_t, TimePoint> wanted_;  ///< bounded: when its lease was asked for last
  runtime::Event answered_;
  runtime::Semaphore telling_;
  uint64_t telling_span_ = 0;  ///< the region that tells now, for those who wait for it
};

}  // namespace kintsugi::client

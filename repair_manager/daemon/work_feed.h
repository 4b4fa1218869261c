/// Ties a repair manager to the metaserver: joins it, learns which shards are the manager's, which of their chunks are
/// lost and which of their files lie badly.
#pragma once

#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/proto/coordination.pb.h"
#include "common/rpc/client.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "repair_manager/compaction/compactor.h"
#include "repair_manager/daemon/remote_cluster_view.h"
#include "repair_manager/manager/repair_manager.h"

namespace kintsugi::repair_manager {

/// Who does the work.
struct WorkTakers {
  RepairManager& repairs;
  Compactor& compactor;
};

/// Tries forever, until stopped. When shards come, when the lease was over, or when it fell behind, it asks
/// for all that is missing: what is known already is not queued twice.
class WorkFeed {
 public:
  /// Between two looks at the events. The metaserver answers when there is one: this only keeps many small answers
  /// apart.
  static constexpr Duration kPace = std::chrono::milliseconds(10);
  static constexpr Duration kRetry = std::chrono::milliseconds(200);  ///< pause after an error
  static constexpr Duration kCallLimit = std::chrono::seconds(1);     ///< time limit of the call that joins
  static constexpr Duration kPageLimit = std::chrono::seconds(10);    ///< time limit of every other call
  static constexpr Duration kLeaveLimit = std::chrono::seconds(1);

  /// References outlive it. `manager_id`: random at each start.
  WorkFeed(const runtime::Runtime& runtime, rpc::Client& client, runtime::Endpoint metaserver,
           uint64_t manager_id, RemoteClusterView& view, WorkTakers takers);

  /// Begins to join. `address`, `http_address`: where this daemon is reached.
  void start(std::string address, std::string http_address);
  /// Tells the metaserver that this manager leaves, so that others take over at once. `client` must not be stopped yet.
  asio::awaitable<void> leave();
  asio::awaitable<void> stop();

  /// Returns when the stripe is this manager's: the metaserver may have given it away just now, which the next join
  /// tells. After kCallLimit in any case.
  asio::awaitable<void> await_stripe(StripeId stripe);

  bool joined() const { return epoch_ != 0 && !view_.lease_over(); }
  size_t shards() const { return shards_; }
  /// Repair managers that share the work, with this one.
  size_t managers() const { return managers_; }

 private:
  asio::awaitable<void> follow();
  asio::awaitable<Status> turn();
  asio::awaitable<Status> join();
  void take_shards(const proto::JoinRepairResponse& answer, TimePoint asked);
  asio::awaitable<Status> fetch_events();
  asio::awaitable<Status> apply(proto::RepairEvent event);
  asio::awaitable<Status> list_all();
  asio::awaitable<Status> list_if_dead(ServerId server);
  asio::awaitable<Status> list_server(ServerId server, Duration dead_for);
  /// Fetches pages of missing chunks and hands each to the repair manager.
  asio::awaitable<Status> list(proto::MissingPage page, Duration dead_for);
  /// Fills in who asks, and the answer.
  asio::awaitable<Status> call(proto::FetchRepairWorkRequest& request,
                               proto::FetchRepairWorkResponse& response);
  Context context(Duration limit) const { return Context{}.with_deadline(runtime_.clock.now() + limit); }

  runtime::Runtime runtime_;
  rpc::Client& client_;
  const runtime::Endpoint metaserver_;
  const uint64_t manager_id_;
  RemoteClusterView& view_;
  RepairManager& repairs_;
  Compactor& compactor_;
  proto::JoinRepairRequest request_;
  uint64_t epoch_ = 0;  ///< 0: not joined
  uint64_t last_ = 0;   ///< number of the last event that was applied
  size_t shards_ = 0, managers_ = 1;
  bool list_all_wanted_ = false;
  TimePoint next_join_{};
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::repair_manager

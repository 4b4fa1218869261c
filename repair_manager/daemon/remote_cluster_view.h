/// The cluster as a repair manager sees it: as the metaserver described it lately.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/repair_shard.h"
#include "common/proto/coordination.pb.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/metaserver_clock.h"
#include "common/rpc/secret.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::repair_manager {

/// Stripes are fetched in batches before they are planned, and trusted for kFresh: what is wrong by then is
/// refused at the commit. Stripes of other managers, and all when the lease is over, are as good as deleted.
class RemoteClusterView final : public ClusterView {
 public:
  static constexpr Duration kFresh = std::chrono::seconds(5);
  static constexpr size_t kMaxKept = 4 * kMaxFetched;  ///< stripes that are kept at most
  /// How often fetch() asks for a stripe that is forgotten while the answer is on its way.
  static constexpr int kQuestions = 2;
  static constexpr Duration kCallLimit = std::chrono::seconds(5);
  /// Pause before a commit is sent again whose connection broke.
  static constexpr Duration kCommitRetry = std::chrono::milliseconds(200);
  /// Within this time the metaserver cannot have found the copy in a block report and had it deleted as one that nobody
  /// knows (metaserver::Garbage::kConfirmAfter is longer).
  static constexpr Duration kCommitLimit = std::chrono::seconds(1);
  /// How long a destination is believed to be about to delete an older copy.
  static constexpr Duration kDeletionMemory = std::chrono::seconds(5);

  /// References outlive it. `manager_id`: as in JoinRepairRequest.
  RemoteClusterView(const runtime::Runtime& runtime, rpc::Client& client, const rpc::Secret& secret,
                    runtime::Endpoint metaserver, uint64_t manager_id);

  /// Says which stripes are this manager's, and until when.
  void set_shards(const proto::JoinRepairResponse& answer, TimePoint lease_end);
  rpc::MetaserverClock& metaserver_clock() { return metaserver_clock_; }
  bool lease_over() const { return runtime_.clock.now() >= lease_end_; }
  bool mine(StripeId stripe) const { return shards_[repair_shard(stripe)] && !lease_over(); }
  bool mine(InodeId inode) const { return shards_[repair_shard(inode)] && !lease_over(); }

  asio::awaitable<Status> refresh_servers(Context context);
  const std::vector<proto::ServerState>& server_states() const { return states_; }
  void forget(StripeId stripe) { stripes_.erase(stripe); }
  void forget_all() { stripes_.clear(); }
  /// Ends waits for the metaserver, and joins what reports on its own.
  asio::awaitable<void> stop();

  std::vector<ServerView> servers() const override { return servers_; }
  std::string name_of(ServerId server) const override;
  std::optional<StripeView> stripe(StripeId id) const override;
  bool fetched(StripeId id) const override;
  asio::awaitable<Status> fetch(Context context, std::vector<StripeId> stripes) override;
  bool deletion_pending(ChunkId chunk, ServerId server) const override;
  Duration clock_ahead() const override { return metaserver_clock_.own_ahead(); }
  std::string capability(ChunkId chunk, uint32_t operations, WallTime expiry) const override;
  asio::awaitable<Result<proto::RepairChunkResponse>> execute(Context context, runtime::Endpoint destination,
                                                              proto::RepairChunkRequest request) override;
  asio::awaitable<void> give_up(Context context, runtime::Endpoint destination,
                                proto::EndRepairRequest request) override;
  asio::awaitable<Status> commit_repair(Context context, ChunkId chunk, ServerId expected_old,
                                        ServerId server) override;
  void report_lost(ChunkId chunk, ServerId server, const std::string& why) override;

 private:
  /// Is made when the stripe is asked for, and removed when the stripe is forgotten. An answer is taken only if the
  /// entry that its question made is still there.
  struct Kept {
    uint64_t since = 0;  ///< number of the first question of which the answer may be taken
    TimePoint fetched = TimePoint::min();
    std::optional<StripeView> stripe;
  };
  struct Place {
    ChunkId chunk;
    ServerId destination;
    uint64_t repair_id = 0;
  };
  struct Checked {
    uint64_t life = 0;                ///< the metaserver's when it was asked
    uint64_t server_incarnation = 0;  ///< the process that makes the copy
    uint64_t repair_id = 0;           ///< repair for which it was asked last
  };
  asio::awaitable<Status> describe(Context context, std::vector<StripeId> stripes);
  /// Asks, before the work is done, whether the metaserver would accept the chunk there, and notes the
  /// metaserver's life.
  asio::awaitable<Status> check_place(Context context, Place place);
  asio::awaitable<void> send_report(proto::ReportChunkRequest report);
  ServerId server_at(const runtime::Endpoint& address) const;
  Context limited(Context context) const { return context.with_deadline(runtime_.clock.now() + kCallLimit); }

  runtime::Runtime runtime_;
  rpc::MetaserverClock metaserver_clock_;
  rpc::Client& client_;
  const rpc::Secret& secret_;
  const runtime::Endpoint metaserver_;
  const uint64_t manager_id_;
  std::array<bool, kRepairShards> shards_{};
  TimePoint lease_end_{};
  std::vector<proto::ServerState> states_;
  std::vector<ServerView> servers_;
  std::map<StripeId, Kept> stripes_;
  uint64_t questions_ = 0;              ///< questions for stripes that were asked so far
  std::map<ChunkId, Checked> checked_;  ///< chunks whose repair runs
  std::set<uint64_t> wanted_;           ///< repairs in execute() that were not given up
  /// Until when the metaserver's word on pending deletions is believed.
  std::map<std::pair<ChunkId, ServerId>, TimePoint> deletions_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::repair_manager

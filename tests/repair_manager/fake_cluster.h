/// A simulated cluster with the real repair manager, RPC and network, and fake chunkservers that rebuild by
/// waiting.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/rpc/client.h"
#include "common/rpc/server.h"
#include "common/runtime/task_group.h"
#include "repair_manager/manager/repair_manager.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::repair_manager {

inline uint64_t any_seed() {
  return simulation::Simulation::seed_from_environment(1);
}

/// The truth about servers and stripes, as a metaserver would know it.
class FakeView final : public ClusterView {
 public:
  std::vector<ServerView> servers() const override;
  std::optional<StripeView> stripe(StripeId id) const override;
  bool deletion_pending(ChunkId chunk, ServerId server) const override {
    return deleting.contains({chunk, server});
  }
  std::string capability(ChunkId chunk, uint32_t operations, WallTime expiry) const override;
  asio::awaitable<Result<proto::RepairChunkResponse>> execute(Context context, runtime::Endpoint destination,
                                                              proto::RepairChunkRequest request) override;
  asio::awaitable<void> give_up(Context context, runtime::Endpoint destination,
                                proto::EndRepairRequest request) override;
  asio::awaitable<Status> commit_repair(Context context, ChunkId chunk, ServerId expected_old,
                                        ServerId server) override;
  void report_lost(ChunkId chunk, ServerId server, const std::string& why) override;

  rpc::Client* client = nullptr;  ///< that calls chunkservers

  bool available(ServerId server, ChunkId chunk) const;
  size_t available_chunks(StripeId id) const;
  std::vector<ChunkId> chunks_of(ServerId server) const;

  std::map<ServerId, ServerView> all_servers;
  std::map<StripeId, StripeView> stripes;
  std::set<ChunkId> lost;
  std::set<std::pair<ChunkId, ServerId>> deleting;
  std::set<ServerId> suspect;  ///< not alive, but what they hold is available
  std::set<ChunkId> refused;   ///< the next commit of these fails
  std::vector<std::pair<ChunkId, ServerId>> commits;
  std::vector<std::pair<std::string, uint64_t>> given_up;  ///< host and repair id
  /// When set: others have turns before the commit returns.
  std::function<void(ChunkId, ServerId)> on_commit;
};

class FakeCluster;

/// Answers RepairChunk after `repair_time`, unless a helper of the tree is down or broken, or told otherwise.
class FakeChunkServer {
 public:
  FakeChunkServer(simulation::Simulation& simulation, FakeCluster& cluster, ServerId id);

  void crash();
  asio::awaitable<void> stop();

  const ServerId id;
  std::string host;
  Duration repair_time = 1s;
  std::function<Status(const proto::RepairChunkRequest&)> verdict;  ///< when set: how a repair here ends

 private:
  asio::awaitable<Status> repair(Context context, const proto::RepairChunkRequest& request,
                                 proto::RepairChunkResponse& response);

  FakeCluster& cluster_;
  simulation::SimNode node_;
  runtime::TaskGroup tasks_;
  rpc::Server server_;
};

class FakeCluster {
 public:
  FakeCluster(uint64_t seed, size_t servers, Options options);
  ~FakeCluster() { stop(); }
  void stop();  ///< all that runs; idempotent

  /// RS(6,3) on nine servers from `first` on, modulo the number of servers.
  StripeId add_stripe(size_t first, uint64_t chunk_length = 8 << 20);
  /// The process dies; the metaserver learns it at once.
  void kill(ServerId server);
  /// Liveness alone: the process runs on.
  void set_alive(ServerId server, bool alive);
  void lose(ChunkId chunk, const std::string& why = "corrupt");
  bool healthy() const;  ///< all chunks of all stripes are available
  bool wait_until_healthy(Duration limit = 10min) {
    return simulation.run_until([this] { return healthy(); }, limit);
  }
  /// As `kintsugi repair run`.
  Result<proto::RepairRecord> run(WantedRepair wanted) {
    return simulation.run(manager.run({}, std::move(wanted)));
  }
  FakeChunkServer& server(uint64_t id) { return *servers.at(ServerId{id}); }

  void began(const proto::RepairChunkRequest& request, ServerId destination);
  void ended(const proto::RepairChunkRequest& request, ServerId destination);

  simulation::Simulation simulation;
  FakeView view;
  std::map<ServerId, std::unique_ptr<FakeChunkServer>> servers;
  std::set<ServerId> broken_helpers;  ///< alive, but every tree with them fails
  std::map<ServerId, int> helping, receiving;
  int most_helping = 0, most_receiving = 0;
  std::vector<std::pair<TimePoint, proto::RepairChunkRequest>> calls;

 private:
  simulation::SimNode node_;
  rpc::Client client_;
  bool stopped_ = false;

 public:
  RepairManager manager;
};

}  // namespace kintsugi::repair_manager

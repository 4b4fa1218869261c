// A repair manager acts on what the metaserver tells it, and begins anew when it was not told something.
#include <gtest/gtest.h>

#include "common/rpc/server.h"
#include "repair_manager/daemon/repair_daemon.h"
#include "tests/expect_ok.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::repair_manager {
namespace {

constexpr uint64_t kServers = 12, kStripe = 7;
const runtime::Endpoint kAddress{"10.0.0.1", 7000};

/// A metaserver whose server 1 is dead and had the first chunk of a stripe, and the other servers. Its events end at `last`.
class Cluster {
 public:
  Cluster() {
    using rpc::Method;
    server_.handle<&Cluster::join>(Method::kJoinRepair, *this);
    server_.handle<&Cluster::list>(Method::kListServers, *this);
    server_.handle<&Cluster::fetch>(Method::kFetchRepairWork, *this);
    server_.handle<&Cluster::describe>(Method::kDescribeStripes, *this);
    server_.handle<&Cluster::commit>(Method::kCommitRepair, *this);
    KINTSUGI_EXPECT_OK(server_.start(kAddress));
    KINTSUGI_EXPECT_OK(manager.start());
  }
  ~Cluster() {
    simulation.run(manager.stop());
    tasks_.request_stop();
    simulation.run(server_.stop());
    simulation.run(tasks_.stop());
  }

  simulation::Simulation simulation{1};
  Duration maintenance{};
  bool forgot_events = false;  ///< the next question for events is answered by the order to start over
  int begun = 0;               ///< repairs that asked whether they may be committed

 private:
  asio::awaitable<Status> join(Context, const proto::JoinRepairRequest&, proto::JoinRepairResponse& answer) {
    for (uint32_t shard = 0; shard < kRepairShards; ++shard)
      answer.add_shards(shard);
    answer.set_epoch(1);
    answer.set_managers(1);
    answer.set_interval_ms(1000);
    answer.set_lease_ms(2500);
    answer.set_max_per_server(16);
    answer.set_repair_delay_ms(60'000);
    co_return Status{};
  }
  asio::awaitable<Status> list(Context, const proto::Empty&, proto::ListServersResponse& answer) {
    for (uint64_t id = 1; id <= kServers; ++id) {
      proto::ServerState& state = *answer.add_servers();
      state.set_server_id(id);
      state.set_address(kAddress.to_string());
      state.set_rack(std::to_string(id));
      state.set_free_bytes(uint64_t{1} << 40);
      if (id != 1) continue;
      state.set_liveness(proto::ServerState::DEAD);
      state.set_seconds_since_heartbeat(to_seconds(simulation.clock().elapsed()));
      state.set_maintenance_seconds(to_seconds(maintenance));
    }
    co_return Status{};
  }
  asio::awaitable<Status> fetch(Context, const proto::FetchRepairWorkRequest& request,
                                proto::FetchRepairWorkResponse& answer) {
    if (request.missing().server_id() == 1) answer.add_missing()->set_stripe_id(kStripe);
    if (request.has_missing()) co_return Status{};
    (void)co_await tasks_.sleep_for(100ms);
    answer.set_last(100);
    answer.set_start_over(std::exchange(forgot_events, false));
    co_return Status{};
  }
  asio::awaitable<Status> describe(Context, const proto::DescribeStripesRequest&,
                                   proto::DescribeStripesResponse& answer) {
    proto::Stripe& stripe = *answer.add_stripes()->mutable_stripe();
    stripe.set_stripe_id(kStripe);
    stripe.set_policy("rs-6-3-64k");
    stripe.set_length(6 << 16);
    for (uint32_t index = 0; index < 9; ++index) {
      proto::ChunkPlacement& chunk = *stripe.add_chunks();
      chunk.set_index(index);
      chunk.set_server_id(index + 1);
      chunk.set_length(1 << 16);
      chunk.set_available(index > 0);
    }
    co_return Status{};
  }
  asio::awaitable<Status> commit(Context, const proto::CommitRepairRequest&, proto::CommitRepairResponse&) {
    ++begun;
    co_return Status{Code::kUnavailable, "it was begun, which is all that is asked"};
  }

  simulation::SimNode meta_node_{simulation, "10.0.0.1"}, node_{simulation, "10.0.0.2"};
  runtime::TaskGroup tasks_{meta_node_.runtime()};
  rpc::Secret secret_;
  rpc::Server server_{meta_node_.runtime(), secret_, nullptr};

 public:
  RepairDaemon manager{
      node_.runtime(), {.listen = {"10.0.0.2", 7001}, .metaserver = kAddress, .repairs = {}}, secret_};
};

TEST(WorkFeed, AChunkOfADeadServerWaitsForTheRepairDelay) {
  Cluster cluster;
  cluster.simulation.run_for(50s);
  EXPECT_EQ(cluster.manager.repairs().counts().delayed, 1u);
  EXPECT_EQ(cluster.begun, 0);
  cluster.simulation.run_for(20s);
  EXPECT_GT(cluster.begun, 0);
}

TEST(WorkFeed, AMaintenanceThatBeganCountsAlsoWhenItsEventIsNotKnownAnyMore) {
  Cluster cluster;
  cluster.simulation.run_for(10s);
  ASSERT_EQ(cluster.manager.repairs().counts().delayed, 1u);
  cluster.maintenance = 1h;
  cluster.forgot_events = true;
  cluster.simulation.run_for(10min);
  EXPECT_EQ(cluster.begun, 0) << "the server is expected back";
  EXPECT_EQ(cluster.manager.repairs().counts().delayed, 1u);
  cluster.maintenance = {};
  cluster.forgot_events = true;
  cluster.simulation.run_for(10s);
  EXPECT_GT(cluster.begun, 0) << "the repair delay was over long ago";
}

}  // namespace
}  // namespace kintsugi::repair_manager

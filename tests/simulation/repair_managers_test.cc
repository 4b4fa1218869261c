// Repair managers as daemons of their own: each for a shard of the stripes, surviving the loss of one.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr size_t kManagers = 3;

class Managers {
 public:
  explicit Managers(uint64_t seed, ClusterOptions options = {}) : cluster(with(std::move(options), seed)) {}

  static ClusterOptions with(ClusterOptions options, uint64_t seed) {
    options.seed = seed;
    options.chunkservers = 14;
    options.racks = 7;
    options.repair_managers = kManagers;
    return options;
  }

  void start_with_files(size_t files) {
    KINTSUGI_ASSERT_OK(cluster.start());
    for (size_t i = 0; i < files; ++i)
      KINTSUGI_EXPECT_OK(cluster.put(fmt::format("/file-{}", i), 1'000'000 + 1'000'000 * (i % 8)));
  }

  /// A server dies that holds something; waits until repairs of it run.
  void lose_a_server_and_wait_for_repairs(size_t lost) {
    cluster.crash_chunkserver(lost, Crash::kKill);
    const auto runs = [&] {
      for (size_t manager = 0; manager < kManagers; ++manager)
        if (cluster.status_of_repair_manager(manager).running_size() > 0) return true;
      return false;
    };
    EXPECT_TRUE(cluster.simulation().run_until(runs, std::chrono::minutes(1)));
  }

  std::vector<uint64_t> done() {
    std::vector<uint64_t> counts;
    for (size_t manager = 0; manager < kManagers; ++manager)
      counts.push_back(cluster.status_of_repair_manager(manager).done());
    return counts;
  }

  /// The one with most under way.
  size_t busiest() {
    size_t found = 0;
    for (size_t manager = 1; manager < kManagers; ++manager)
      if (cluster.status_of_repair_manager(manager).running_size() >
          cluster.status_of_repair_manager(found).running_size())
        found = manager;
    return found;
  }

  void expect_all_is_well() {
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    // A stale copy goes a moment after the server with the proper one has told that it has it.
    KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks(10s));
    expect_one_copy_each();
  }

  void expect_one_copy_each() {
    for (const std::string& path : cluster.paths())
      for (const proto::Stripe& stripe : cluster.stripes_of(path))
        for (const proto::ChunkPlacement& chunk : stripe.chunks()) {
          if (chunk.length() < cluster.options().chunk_bytes) continue;  // may be in a segment
          const std::vector<size_t> holders = cluster.holders({StripeId{stripe.stripe_id()}, chunk.index()});
          const auto runs = [&](size_t server) { return cluster.running(server); };
          EXPECT_EQ(std::count_if(holders.begin(), holders.end(), runs), 1)
              << stripe.stripe_id() << ":" << chunk.index();
        }
  }

  SimulatedCluster cluster;
};

TEST(RepairManagers, ShareTheWorkAndEachChunkIsRepairedOnce) {
  for (const uint64_t seed : seeds({1, 2, 3, 4, 5})) {
    Managers managers(seed);
    SimulatedCluster& cluster = managers.cluster;
    managers.start_with_files(20);
    managers.lose_a_server_and_wait_for_repairs(cluster.pick(1).front());
    managers.expect_all_is_well();
    const std::vector<uint64_t> done = managers.done();
    EXPECT_GE(std::count_if(done.begin(), done.end(), [](uint64_t n) { return n > 0; }), 2);
    // The metaserver shows what all of them did, and made none itself.
    const auto status = cluster.repair_status();
    ASSERT_TRUE(status) << status.error();
    EXPECT_EQ(status->done(), done[0] + done[1] + done[2]);
    std::map<std::pair<uint64_t, uint32_t>, int> times;
    for (const proto::RepairRecord& record : cluster.repair_history())
      if (record.outcome() == proto::RepairRecord::DONE) ++times[{record.stripe_id(), record.index()}];
    EXPECT_EQ(times.size(), status->done());
    for (const auto& [chunk, count] : times)
      EXPECT_EQ(count, 1) << chunk.first << ":" << chunk.second;
  }
}

TEST(RepairManagers, AnotherTakesOverWhenOneDiesInTheMiddleOfItsRepairs) {
  for (const uint64_t seed : seeds({11, 12, 13, 14, 15, 16, 17, 18})) {
    Managers managers(seed);
    SimulatedCluster& cluster = managers.cluster;
    managers.start_with_files(20);
    managers.lose_a_server_and_wait_for_repairs(cluster.pick(1).front());
    cluster.run_for(cluster.random_time(0ms, 8ms));
    cluster.crash_repair_manager(managers.busiest(), cluster.random().coin() ? Crash::kKill : Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    // Chunks that it left behind on destinations are found by the next block report, if they are not overwritten.
    const size_t next = cluster.pick(1).front();
    cluster.crash_chunkserver(next, Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(RepairManagers, WhileAllAreGoneNothingIsRepairedAndTheMetaserverSaysSo) {
  for (const uint64_t seed : seeds({21, 22, 23, 24})) {
    Managers managers(seed);
    SimulatedCluster& cluster = managers.cluster;
    managers.start_with_files(10);
    managers.lose_a_server_and_wait_for_repairs(cluster.pick(1).front());
    for (size_t manager = 0; manager < kManagers; ++manager)
      cluster.crash_repair_manager(manager, Crash::kKill);
    const size_t second = cluster.pick(1).front();
    cluster.crash_chunkserver(second, Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.wait_until_dead(second));
    cluster.run_for(30s);
    const auto missing = cluster.fsck();
    ASSERT_TRUE(missing) << missing.error();
    EXPECT_GT(missing->missing_chunks(), 0u);
    const auto status = cluster.repair_status();
    EXPECT_EQ(status.error().code(), Code::kNotFound);
    EXPECT_NE(status.error().message().find("no repair manager is registered: nothing is repaired"),
              std::string::npos)
        << status.error();
    KINTSUGI_EXPECT_OK(cluster.check_contents());  // clients decode what has no plan
    // The first that comes learns all that is missing.
    cluster.restart_repair_manager(0);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    for (size_t manager = 1; manager < kManagers; ++manager)
      cluster.restart_repair_manager(manager);
    cluster.run_for(5s);
    managers.lose_a_server_and_wait_for_repairs(cluster.pick(1).front());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    const std::vector<uint64_t> done = managers.done();
    EXPECT_GT(done[0] + done[1] + done[2], 0u);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(RepairManagers, GoOnAfterTheMetaserverRestarts) {
  for (const uint64_t seed : seeds({31, 32, 33, 34, 35, 36})) {
    Managers managers(seed);
    SimulatedCluster& cluster = managers.cluster;
    managers.start_with_files(20);
    managers.lose_a_server_and_wait_for_repairs(cluster.pick(1).front());
    cluster.run_for(cluster.random_time(0ms, 8ms));
    cluster.crash_metaserver();
    cluster.run_for(cluster.random_time(0ms, 8s));
    cluster.restart_metaserver();
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    const size_t next = cluster.pick(1).front();
    managers.lose_a_server_and_wait_for_repairs(next);
    managers.expect_all_is_well();
  }
}

TEST(RepairManagers, OneThatIsCutOffFromTheMetaserverStopsBeforeAnotherBegins) {
  for (const uint64_t seed : seeds({41, 42, 43, 44, 45, 46})) {
    Managers managers(seed);
    SimulatedCluster& cluster = managers.cluster;
    managers.start_with_files(20);
    managers.lose_a_server_and_wait_for_repairs(cluster.pick(1).front());
    // It reaches all chunkservers, only not the metaserver.
    const size_t cut = managers.busiest();
    cluster.network().cut(SimulatedCluster::repair_manager_name(cut), "metaserver");
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    EXPECT_EQ(cluster.status_of_repair_manager(cut).queued(), 0u);
    cluster.network().mend(SimulatedCluster::repair_manager_name(cut), "metaserver");
    cluster.run_for(3s);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    managers.lose_a_server_and_wait_for_repairs(cluster.pick(1).front());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(RepairManagers, AChunkThatRotsIsRepairedByItsManagerAndARequestedRepairGoesToIt) {
  for (const uint64_t seed : seeds({51, 52, 53})) {
    Managers managers(seed);
    SimulatedCluster& cluster = managers.cluster;
    managers.start_with_files(0);
    KINTSUGI_EXPECT_OK(cluster.put("/file", 6'291'456));
    const proto::Stripe stripe = cluster.stripes_of("/file").front();
    const proto::ChunkPlacement& chunk = stripe.chunks(1);
    const ChunkId id{StripeId{stripe.stripe_id()}, chunk.index()};
    (void)cluster.server_id(0);
    ASSERT_TRUE(cluster.rot(*cluster.server_of(ServerId{chunk.server_id()}), id));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    EXPECT_EQ(managers.done()[0] + managers.done()[1] + managers.done()[2], 1u);
    proto::RunRepairRequest request;
    request.set_stripe_id(stripe.stripe_id());
    request.set_index(4);
    const auto run = cluster.run(cluster.client().run_repair(std::move(request)));
    ASSERT_TRUE(run) << run.error();
    EXPECT_EQ(run->record().outcome(), proto::RepairRecord::DONE);
    EXPECT_EQ(managers.done()[0] + managers.done()[1] + managers.done()[2], 2u);
    managers.expect_all_is_well();
  }
}

TEST(RepairManagers, ARandomLifeOfManagersServersAndTheMetaserverLosesNothing) {
  for (const uint64_t seed : seeds({61, 62, 63, 64, 65, 66, 67, 68})) {
    Managers managers(seed);
    SimulatedCluster& cluster = managers.cluster;
    managers.start_with_files(12);
    for (int round = 0; round < 6; ++round) {
      if (cluster.up().size() > 12) cluster.crash_chunkserver(cluster.pick(1).front(), Crash::kPower);
      cluster.run_for(cluster.random_time(0s, 15s));
      const size_t manager = cluster.random_below(kManagers);
      if (cluster.repair_manager_running(manager)) cluster.crash_repair_manager(manager, Crash::kPower);
      cluster.run_for(cluster.random_time(0s, 5s));
      if (cluster.random_below(3) == 0) {
        cluster.crash_metaserver();
        cluster.run_for(cluster.random_time(0s, 5s));
        cluster.restart_metaserver();
      }
      if (cluster.random().coin()) cluster.restart_all();
    }
    cluster.restart_all();
    managers.expect_all_is_well();
  }
}

}  // namespace
}  // namespace kintsugi::simulation

// Partitions, lossy networks, slow and hung machines.
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

TEST(NetworkFaults, AClientThatDoesNotReachSomeServersReadsAndWritesAroundThem) {
  for (const uint64_t seed : seeds({1, 2, 3})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/before", 7'000'000));
    for (const size_t server : cluster.pick(2))
      cluster.cut(server, "client");
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.put("/during", 7'000'000));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    cluster.network().heal();
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(NetworkFaults, ServersThatTheMetaserverDoesNotReachAreRepairedAndComeBackWithStaleCopies) {
  for (const uint64_t seed : seeds({11, 12, 13})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", 13'000'000));
    const auto away = cluster.pick(2);
    for (const size_t server : away)
      cluster.cut(server, "metaserver");
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.put("/during", 7'000'000));
    for (const size_t server : away)
      cluster.mend(server, "metaserver");
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(NetworkFaults, ASplitClusterHealsWhenTheNetworkDoes) {
  for (const uint64_t seed : seeds({21, 22, 23, 24})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", 13'000'000));
    const auto put = cluster.start_put("/during", 13'000'000);
    cluster.run_for(cluster.random_time(0ms, 100ms));
    std::vector<std::string> half;
    for (const size_t server : cluster.pick(5))
      half.push_back(SimulatedCluster::name(server));
    cluster.network().partition({half});
    cluster.run_for(cluster.random_time(1s, 2min));
    cluster.network().heal();
    (void)cluster.finish(put);  // with half of the servers away it may fail
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.put("/after", 7'000'000));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(NetworkFaults, ALossyNetworkOnlyTakesLonger) {
  for (const uint64_t seed : seeds({31, 32})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    cluster.network().set_loss(0.02);
    KINTSUGI_EXPECT_OK(cluster.put("/file", 13'000'000));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    cluster.crash_chunkserver(cluster.pick(1).front(), Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(NetworkFaults, ConnectionsThatBreakDuringPutsAndGetsAreMadeAgain) {
  for (const uint64_t seed : seeds({41, 42, 43})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 6; ++i) {
      const std::string path = "/file-" + std::to_string(i);
      const auto put = cluster.start_put(path, 7'000'000);
      cluster.run_for(cluster.random_time(0ms, 60ms));
      for (const size_t server : cluster.pick(2))
        cluster.network().drop_connections(SimulatedCluster::name(server));
      KINTSUGI_EXPECT_OK(cluster.finish(put));
      const auto get = cluster.start_check(path);
      cluster.run_for(cluster.random_time(0ms, 20ms));
      for (const size_t server : cluster.pick(2))
        cluster.network().drop_connections(SimulatedCluster::name(server));
      KINTSUGI_EXPECT_OK(cluster.finish(get));
    }
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(NetworkFaults, WallClocksThatDisagreeChangeNothing) {
  for (const uint64_t seed : seeds({45, 46})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/before", 7'000'000));
    const auto put = cluster.start_put("/during", 13'000'000);
    cluster.run_for(cluster.random_time(0ms, 50ms));
    for (const size_t server : cluster.up())
      cluster.set_wall_offset(server, cluster.random_time(0s, 40min) - 20min);
    cluster.set_metaserver_wall_offset(cluster.random_time(0s, 40min) - 20min);
    KINTSUGI_EXPECT_OK(cluster.finish(put));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    cluster.crash_chunkserver(cluster.pick(1).front(), Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.put("/after", 7'000'000));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(NetworkFaults, AReadGoesAroundServersThatHang) {
  for (const uint64_t seed : seeds({51, 52, 53})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", 13'000'000));
    KINTSUGI_EXPECT_OK(cluster.check("/file"));
    for (const size_t server : cluster.pick(2))
      cluster.hang(server);
    const auto get = cluster.start_check("/file");
    KINTSUGI_EXPECT_OK(cluster.finish(get));
    EXPECT_LT(get->took, 1s) << "reads hedge, they do not wait for the dead";
  }
}

TEST(NetworkFaults, ASlowServerDoesNotMakeAReadSlow) {
  for (const uint64_t seed : seeds({61, 62, 63})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", 13'000'000));
    KINTSUGI_EXPECT_OK(cluster.check("/file"));
    cluster.network().set_extra_latency(SimulatedCluster::name(cluster.pick(1).front()), 2s);
    const auto get = cluster.start_check("/file");
    KINTSUGI_EXPECT_OK(cluster.finish(get));
    EXPECT_LT(get->took, 3s);
  }
}

TEST(NetworkFaults, RepairsGoOnWithoutAServerThatHangs) {
  for (const uint64_t seed : seeds({71, 72, 73})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 4; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), 6'291'456));
    const auto victims = cluster.pick(2);
    cluster.crash_chunkserver(victims[0], Crash::kKill);
    cluster.run_for(9s);
    cluster.hang(victims[1]);
    // It is found dead as well once its heartbeats stop, and repairs that wait for it are planned anew.
    const Duration before = cluster.elapsed();
    KINTSUGI_EXPECT_OK(cluster.wait_until(
        [&]() -> Status {
          const auto check = cluster.fsck();
          if (!check) return check.error();
          const auto repairs = cluster.repair_status();
          if (!repairs) return repairs.error();
          if (repairs->done() == 0 || check->missing_chunks() > 0 || repairs->running_size() > 0)
            return {Code::kUnavailable, fmt::format("{} chunks are missing", check->missing_chunks())};
          return {};
        },
        5min));
    EXPECT_LT(cluster.elapsed() - before, 3min);
    cluster.unhang(victims[1]);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

}  // namespace
}  // namespace kintsugi::simulation

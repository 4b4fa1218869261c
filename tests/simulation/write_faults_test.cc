// Servers fail while they are written to.
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

TEST(WriteFaults, AServerThatDiesDuringAPutIsReplacedOrItsChunksAreRepaired) {
  for (const uint64_t seed : seeds({1, 2, 3, 4, 5, 6, 7, 8})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11});
    KINTSUGI_ASSERT_OK(cluster.start());
    const auto put = cluster.start_put("/file", 14'000'000);
    const auto other = cluster.start_put("/other", 300'000);
    cluster.run_for(cluster.random_time(0ms, 100ms));
    cluster.crash_chunkserver(cluster.pick(1).front(), seed % 2 ? Crash::kKill : Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.finish(put));
    KINTSUGI_EXPECT_OK(cluster.finish(other));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    for (const size_t next : cluster.pick(3))
      cluster.crash_chunkserver(next, Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(WriteFaults, APutThatMeetsADeadServerBeforeTheMetaserverKnowsSucceeds) {
  for (const uint64_t seed : seeds({11, 12, 13, 14})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (const size_t lost : cluster.pick(2))
      cluster.crash_chunkserver(lost, seed % 2 ? Crash::kKill : Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.put("/file", 7'000'000));
    KINTSUGI_EXPECT_OK(cluster.put("/small", 7'000));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(WriteFaults, ManySmallFilesAreKeptWhoeverCrashesMeanwhile) {
  for (const uint64_t seed : seeds({61, 62, 63, 64, 65, 66})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11});
    KINTSUGI_ASSERT_OK(cluster.start());
    std::vector<SimulatedCluster::OperationPtr> puts;
    for (int i = 0; i < 60; ++i)
      puts.push_back(cluster.start_put(fmt::format("/small-{}", i), 1 + cluster.random_below(70'000)));
    const std::vector<size_t> struck = cluster.pick(2);
    cluster.run_for(cluster.random_time(0ms, 30ms));
    cluster.crash_chunkserver(struck.front(), seed % 2 ? Crash::kKill : Crash::kPower);
    cluster.hang(struck.back());
    cluster.run_for(cluster.random_time(0ms, 30ms));
    cluster.crash_metaserver(seed % 2 ? Crash::kPower : Crash::kKill);
    cluster.run_for(100ms);
    cluster.restart_metaserver();
    for (const auto& put : puts)
      KINTSUGI_EXPECT_OK(cluster.finish(put));
    // Whatever was acknowledged survives the loss of every server's power, too.
    cluster.crash_chunkserver(struck.back(), Crash::kPower);
    cluster.unhang(struck.back());
    for (const size_t server : struck)
      cluster.restart_chunkserver(server);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    for (const size_t next : cluster.pick(3))
      cluster.crash_chunkserver(next, Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(WriteFaults, AServerThatHangsCostsAPutLessThanASecond) {
  for (const uint64_t seed : seeds({15, 16, 17, 18})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 10});
    KINTSUGI_ASSERT_OK(cluster.start());
    const auto undisturbed = cluster.start_put("/before", 20'000'000);
    KINTSUGI_ASSERT_OK(cluster.finish(undisturbed));
    // From before the put, or in the middle of it.
    const size_t server = cluster.pick(1).front();
    const bool before = cluster.random_below(2) == 0;
    if (before) cluster.hang(server);
    const auto put = cluster.start_put("/file", 20'000'000);
    cluster.run_for(cluster.random_time(0ms, undisturbed->took));
    if (!before) cluster.hang(server);
    KINTSUGI_EXPECT_OK(cluster.finish(put));
    EXPECT_LT(put->took, undisturbed->took + 1s);
    cluster.crash_chunkserver(server, Crash::kPower);
    cluster.unhang(server);
    cluster.restart_chunkserver(server);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(WriteFaults, GoOnWithTwoOfTenServersAway) {
  for (const uint64_t seed : seeds({19, 20})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 10});
    KINTSUGI_ASSERT_OK(cluster.start());
    const std::vector<size_t> away = cluster.pick(2);
    for (const size_t server : away)
      cluster.crash_chunkserver(server, Crash::kKill);
    // At once, while they may still be taken for alive, and after they are dead; large and small files.
    for (int round = 0; round < 2; ++round) {
      for (const uint64_t size : {20'000'000, 3'000'000, 30'000, 3})
        KINTSUGI_EXPECT_OK(cluster.put(fmt::format("/{}-{}", round, size), size));
      for (const size_t server : away)
        KINTSUGI_EXPECT_OK(cluster.wait_until_dead(server));
    }
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    for (const size_t server : away)
      cluster.restart_chunkserver(server);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(WriteFaults, APutSucceedsAroundAFullDisk) {
  for (const uint64_t seed : seeds({21, 22, 23})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 11});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/before", 7'000'000));
    for (const size_t full : cluster.pick(2))
      cluster.disk(full).fill();
    for (int i = 0; i < 5; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), 7'000'000));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(WriteFaults, AClusterThatIsFullSaysSoAndGoesOnServingReads) {
  for (const uint64_t seed : seeds({31, 32})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 9});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/before", 7'000'000));
    for (const size_t server : cluster.up())
      cluster.disk(server).fill();
    EXPECT_NE(cluster.put("/file", 7'000'000), Status{});
    EXPECT_NE(cluster.put("/before", 7'000'000), Status{});
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    for (const size_t server : cluster.up())
      cluster.disk(server).set_capacity("/", SimDisk::kDefaultCapacity);
    cluster.run_for(5s);
    KINTSUGI_EXPECT_OK(cluster.put("/file", 7'000'000));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(WriteFaults, AClientThatDiesDuringAPutLeavesTheOldFileAndNoGarbage) {
  for (const uint64_t seed : seeds({41, 42, 43, 44})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", 7'000'000));
    cluster.start_put("/file", 14'000'000);
    cluster.start_put("/new", 14'000'000);
    cluster.run_for(cluster.random_time(0ms, 100ms));
    cluster.crash_client();
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    cluster.run_for(4h);  // an idle upload is given up after an hour; reports come every hour
    KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

}  // namespace
}  // namespace kintsugi::simulation

// The metaserver dies in the middle of things and comes back with what was durable.
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

TEST(MetaserverCrash, APutFinishesOrLeavesTheOldFile) {
  for (const uint64_t seed : seeds({1, 2, 3, 4, 5, 6, 7, 8})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/replaced", 500'000));
    std::vector<SimulatedCluster::OperationPtr> puts;
    puts.push_back(cluster.start_put("/replaced", 10'000'000));
    puts.push_back(cluster.start_put("/new", 8'000'000));
    puts.push_back(cluster.start_put("/small", 10'000));
    cluster.run_for(cluster.random_time(0ms, 120ms));
    cluster.crash_metaserver();
    cluster.run_for(cluster.random_time(0ms, 10s));
    cluster.restart_metaserver();
    // The client is patient for longer than this restart takes.
    for (const auto& put : puts)
      KINTSUGI_EXPECT_OK(cluster.finish(put));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
  }
}

TEST(MetaserverCrash, APutThatCannotWaitFailsAndLeavesTheOldFile) {
  for (const uint64_t seed : seeds({11, 12})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", 500'000));
    const auto put = cluster.start_put("/file", 10'000'000);
    cluster.run_for(cluster.random_time(0ms, 10ms));
    cluster.crash_metaserver();
    EXPECT_NE(cluster.finish(put), Status{});
    EXPECT_LT(put->took, 5min);
    cluster.restart_metaserver();
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(MetaserverCrash, RepairsAreTakenUpAgainAndEveryChunkEndsInOnePlace) {
  for (const uint64_t seed : seeds({21, 22, 23, 24, 25, 26})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 12; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), 6'291'456));
    const size_t lost = cluster.pick(1).front();
    cluster.crash_chunkserver(lost, Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.wait_until_dead(lost));
    cluster.run_for(cluster.random_time(0ms, 30ms));
    cluster.crash_metaserver();
    cluster.run_for(cluster.random_time(0ms, 5s));
    cluster.restart_metaserver();
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    // The chunks that it held have moved; its copies are stale when it is back.
    cluster.restart_chunkserver(lost);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    cluster.run_for(2h);  // what nobody knows is only collected when no upload can own it any more
    KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
    for (int i = 0; i < 12; ++i) {
      for (const auto& stripe : cluster.stripes_of("/file-" + std::to_string(i)))
        for (const auto& chunk : stripe.chunks())
          EXPECT_EQ(cluster.holders({StripeId{stripe.stripe_id()}, chunk.index()}).size(), 1u);
    }
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(MetaserverCrash, NoServerIsDeclaredDeadNorRepairedBecauseTheMetaserverWasAway) {
  for (const uint64_t seed : seeds({31, 32})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 4; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), 2'000'000));
    cluster.crash_metaserver();
    cluster.run_for(5min);
    cluster.restart_metaserver();
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    EXPECT_TRUE(cluster.repair_history().empty());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(MetaserverCrash, WhatARemovedFileHeldIsCollectedThoughTheMetaserverDied) {
  for (const uint64_t seed : seeds({41, 42, 43})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/kept", 7'000'000));
    KINTSUGI_EXPECT_OK(cluster.put("/removed", 13'000'000));
    const size_t away = cluster.pick(1).front();
    cluster.crash_chunkserver(away, Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.remove("/removed"));
    cluster.run_for(cluster.random_time(0ms, 2s));
    cluster.crash_metaserver();
    cluster.restart_metaserver();
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    cluster.restart_chunkserver(away);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

}  // namespace
}  // namespace kintsugi::simulation

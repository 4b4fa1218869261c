// Servers and power are lost: what was acknowledged is read, and what was lost is repaired.
#include <fmt/format.h>

#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr size_t kParity = 3;  // of the default policy

/// Sizes around the borders of block, cell, row, chunk and stripe.
const std::vector<uint64_t> kSizes{1,         4096,      65'536,    65'537,    393'216,
                                   1'000'003, 6'291'456, 6'291'457, 9'000'000, 0};

void put_files(SimulatedCluster& cluster) {
  for (size_t i = 0; i < kSizes.size(); ++i)
    KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kSizes[i]));
}

TEST(Loss, WhatOneKilledServerHeldIsReadAndRepaired) {
  for (const uint64_t seed : seeds({1, 2, 3, 4})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    put_files(cluster);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    const size_t lost = cluster.pick(1).front();
    cluster.crash_chunkserver(lost, Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    // Nine servers are left, enough for every stripe: any m of them may go now.
    for (const size_t next : cluster.pick(kParity))
      cluster.crash_chunkserver(next, Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(Loss, AnyServersAsManyAsThereIsParityMayGoAtOnce) {
  for (const uint64_t seed : seeds({11, 12, 13, 14, 15, 16})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    put_files(cluster);
    for (const size_t lost : cluster.pick(kParity))
      cluster.crash_chunkserver(lost, Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    for (const size_t lost : cluster.pick(kParity))
      cluster.crash_chunkserver(lost, Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(Loss, AnyRangeIsReadThoughServersAreLost) {
  for (const uint64_t seed : seeds({17, 18})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    const uint64_t size = 13'000'001;
    KINTSUGI_EXPECT_OK(cluster.put("/file", size));
    for (const size_t lost : cluster.pick(kParity))
      cluster.crash_chunkserver(lost, Crash::kKill);
    for (int i = 0; i < 40; ++i) {
      const uint64_t length = 1 + cluster.random_below(i % 4 ? 100'000 : 7'000'000);
      KINTSUGI_EXPECT_OK(cluster.check_range("/file", cluster.random_below(size + 10), length));
    }
  }
}

TEST(Loss, SmallFilesOutlivePowerFailuresAndTheCleaningOfTheirSegments) {
  for (const uint64_t seed : seeds({19, 20})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 5});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int round = 0; round < 4; ++round) {
      std::vector<SimulatedCluster::OperationPtr> operations;
      for (int i = 0; i < 100; ++i) {
        const std::string path = fmt::format("/small-{}", i);
        const bool remove = round > 0 && cluster.random_below(3) == 0 && cluster.exists(path);
        operations.push_back(remove ? cluster.start_remove(path)
                                    : cluster.start_put(path, 1 + cluster.random_below(65'536)));
      }
      for (const auto& operation : operations)
        KINTSUGI_EXPECT_OK(cluster.finish(operation));
      cluster.run_for(cluster.random_time(0s, 15s));
      cluster.crash_all(Crash::kPower);
      cluster.restart_all();
      KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
      KINTSUGI_EXPECT_OK(cluster.check_contents());
    }
  }
}

TEST(Loss, WhatAPowerFailureOfAllNodesInterruptsIsOldOrNewAndWhatWasAcknowledgedIsThere) {
  for (const uint64_t seed : seeds({21, 22, 23, 24, 25, 26, 27, 28, 29, 30})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 4; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/old-" + std::to_string(i), 700'000));
    // Some replace, some are new; the power goes while they are under way.
    for (int i = 0; i < 8; ++i) {
      const std::string path = (i % 2 ? "/old-" : "/new-") + std::to_string(i / 2);
      cluster.start_put(path, 100'000 + cluster.random_below(7'000'000));
    }
    cluster.run_for(cluster.random_time(0ms, 150ms));
    cluster.crash_all(Crash::kPower);
    cluster.run_for(cluster.random_time(0ms, 30s));
    cluster.restart_all();
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.put("/old-0", 500'000));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(Loss, PowerFailuresOneAfterTheOtherLoseNothing) {
  for (const uint64_t seed : seeds({31, 32, 33})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int round = 0; round < 5; ++round) {
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(round), 50'000 + 900'000 * round));
      cluster.run_for(cluster.random_time(0ms, 3s));
      cluster.crash_all(round % 2 ? Crash::kKill : Crash::kPower);
      cluster.run_for(cluster.random_time(0ms, 3s));
      cluster.restart_all();
      // Sometimes the next failure comes before the cluster has found itself.
      if (cluster.random().coin()) continue;
      KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    }
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(Loss, AHundredServersLoseThreeAndRepairAllThatTheyHeld) {
  for (const uint64_t seed : seeds({41})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 100, .racks = 20});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 200; i += 10) {
      std::vector<SimulatedCluster::OperationPtr> puts;
      for (int j = i; j < i + 10; ++j)
        puts.push_back(cluster.start_put("/file-" + std::to_string(j), 1 + cluster.random_below(400'000)));
      for (const auto& put : puts)
        KINTSUGI_EXPECT_OK(cluster.finish(put));
    }
    for (const size_t lost : cluster.pick(3))
      cluster.crash_chunkserver(lost, Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    const auto repairs = cluster.repair_status();
    ASSERT_TRUE(repairs) << repairs.error();
    EXPECT_GE(repairs->done(), 20u);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

}  // namespace
}  // namespace kintsugi::simulation

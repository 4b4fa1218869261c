// Servers that let repairs have little: these take their time, and succeed.
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr uint64_t kLimit = 1 << 20;  // bytes a second

ClusterOptions limited(uint64_t seed, size_t repair_managers) {
  return {.seed = seed,
          .chunkservers = 12,
          .racks = 12,
          .repair_managers = repair_managers,
          .chunk_bytes = 64 << 20,
          .repair_bytes_per_second = kLimit};
}

void expect_slow_repairs_that_succeed(SimulatedCluster& cluster) {
  KINTSUGI_ASSERT_OK(cluster.start());
  // A stripe each of rs-6-3 with chunks of some 33 MiB, which take half a minute at that limit.
  for (const char* path : {"/one", "/two"})
    KINTSUGI_ASSERT_OK(cluster.put(path, 200'000'000));
  cluster.run_for(5s);
  const ServerId holder{cluster.stripes_of("/one").front().chunks(4).server_id()};
  cluster.crash_chunkserver(*cluster.server_of(holder), Crash::kKill);
  const Duration began = cluster.elapsed();
  bool shown = false;
  const auto look = [&] {
    const auto status = cluster.repair_status();
    if (!status) return;
    for (const proto::RepairRecord& record : status->running()) {
      shown = true;
      EXPECT_GT(record.estimated_seconds(), 20.0) << "a chunk needs half a minute";
    }
  };
  for (int i = 0; i < 60 && !shown; ++i) {
    cluster.run_for(1s);
    look();
  }
  EXPECT_TRUE(shown);
  KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
  EXPECT_GT(cluster.elapsed() - began, 30s);
  for (const proto::RepairRecord& record : cluster.repair_history())
    EXPECT_EQ(record.outcome(), proto::RepairRecord::DONE) << record.detail();
}

TEST(RepairLimits, OfOneMebibyteASecondMakeRepairsSlowButNoneFails) {
  for (const uint64_t seed : seeds({1, 2})) {
    SimulatedCluster cluster(limited(seed, 1));
    expect_slow_repairs_that_succeed(cluster);
  }
}

TEST(RepairLimits, AreKnownToSeveralRepairManagers) {
  SimulatedCluster cluster(limited(3, 2));
  expect_slow_repairs_that_succeed(cluster);
}

}  // namespace
}  // namespace kintsugi::simulation

// When repairs begin: at once, after repair.delay, or not at all.
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

/// Virtual time at which the first attempt of any repair began.
Duration first_start(SimulatedCluster& cluster) {
  Duration first = Duration::max();
  for (const auto& record : cluster.repair_history())
    first = std::min(first, cluster.since_start(record.started_ns()));
  return first;
}

/// A server that holds a chunk of the file's first stripe.
size_t holder(SimulatedCluster& cluster, const std::string& path, int index) {
  (void)cluster.server_id(0);
  return cluster.server_of(ServerId{cluster.stripes_of(path).at(0).chunks(index).server_id()}).value();
}

TEST(RepairTiming, WithoutADelayTheFirstRepairBeginsWithinASecondOfTheServersDeath) {
  for (const uint64_t seed : seeds({1, 2, 3})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 10; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe));
    const size_t lost = holder(cluster, "/file-0", 0);
    const Duration crashed = cluster.elapsed();
    cluster.crash_chunkserver(lost, Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.wait_until_dead(lost));
    const Duration dead = cluster.elapsed();  // at most kLook later than the metaserver found out
    EXPECT_LT(dead - crashed, cluster.options().dead_after + 2s);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    EXPECT_LE(first_start(cluster), dead + 1s);
    EXPECT_GE(first_start(cluster), crashed + cluster.options().dead_after - 2s);
  }
}

TEST(RepairTiming, TheFirstRepairBeginsWithinFiftyMillisecondsOfTheVerdict) {
  for (const uint64_t seed : seeds({51, 52, 53, 54})) {
    SimulatedCluster cluster({.seed = seed, .repair_managers = 1 + seed % 2});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 10; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe));
    const size_t lost = holder(cluster, "/file-0", 0);
    cluster.crash_chunkserver(lost, Crash::kPower);
    cluster.run_for(cluster.options().dead_after - 2s);
    while (cluster.liveness(lost).value() != proto::ServerState::DEAD)
      cluster.run_for(1ms);
    const Duration dead = cluster.elapsed();  // a look later than the metaserver found out
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    EXPECT_LE(first_start(cluster), dead + 50ms);
    std::printf("seed %llu: first repair %.1f ms after the verdict\n", static_cast<unsigned long long>(seed),
                to_seconds(first_start(cluster) - dead) * 1e3);
  }
}

TEST(RepairTiming, AServerThatReturnsWithinTheDelayIsNotRepaired) {
  for (const uint64_t seed : seeds({11, 12, 13})) {
    SimulatedCluster cluster({.seed = seed, .repair_delay = 60s});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 4; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe));
    const size_t away = holder(cluster, "/file-0", 0);
    cluster.crash_chunkserver(away, Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.wait_until_dead(away));
    cluster.run_for(1s);
    const auto waiting = cluster.repair_status();
    ASSERT_TRUE(waiting) << waiting.error();
    EXPECT_GT(waiting->delayed(), 0u);
    cluster.run_for(40s);
    cluster.restart_chunkserver(away);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    cluster.run_for(3min);
    EXPECT_TRUE(cluster.repair_history().empty());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(RepairTiming, AServerThatStaysAwayIsRepairedAfterTheDelay) {
  for (const uint64_t seed : seeds({21, 22})) {
    SimulatedCluster cluster({.seed = seed, .repair_delay = 60s});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", kWholeStripe));
    const size_t away = holder(cluster, "/file", 0);
    cluster.crash_chunkserver(away, Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.wait_until_dead(away));
    const Duration dead = cluster.elapsed();
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    EXPECT_GE(first_start(cluster), dead + 60s - 2 * SimulatedCluster::kLook);
    EXPECT_LE(first_start(cluster), dead + 62s);
  }
}

TEST(RepairTiming, AStripeWithOneSpareChunkLeftDoesNotWait) {
  for (const uint64_t seed : seeds({31, 32})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6, .repair_delay = 15min});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", kWholeStripe));
    const size_t first = holder(cluster, "/file", 0);
    const size_t second = holder(cluster, "/file", 5);
    cluster.crash_chunkserver(first, Crash::kPower);
    cluster.crash_chunkserver(second, Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.wait_until_dead(first));
    KINTSUGI_EXPECT_OK(cluster.wait_until_dead(second));
    const Duration dead = cluster.elapsed();
    cluster.run_for(5s);
    EXPECT_LE(first_start(cluster), dead + 1s);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(RepairTiming, AHealthyChunkIsRebuiltElsewhereOnRequestInAnyShape) {
  for (const uint64_t seed : seeds({41})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", kWholeStripe));
    const auto before = cluster.stripes_of("/file").at(0);
    int index = 0;
    for (const proto::RepairShape shape : {proto::RepairShape::STAR, proto::RepairShape::PPR,
                                           proto::RepairShape::CHAIN, proto::RepairShape::AUTO}) {
      for (const uint64_t slice_bytes : {uint64_t{65'536}, cluster.options().chunk_bytes}) {
        proto::RunRepairRequest request;
        request.set_stripe_id(before.stripe_id());
        request.set_index(static_cast<uint32_t>(index++));
        request.set_shape(shape);
        request.set_slice_bytes(slice_bytes);
        const auto run = cluster.run(cluster.client().run_repair(request));
        ASSERT_TRUE(run) << run.error();
        EXPECT_EQ(run->record().outcome(), proto::RepairRecord::DONE);
        EXPECT_EQ(run->record().chunk_bytes(), cluster.options().chunk_bytes);
      }
    }
    const auto after = cluster.stripes_of("/file").at(0);
    for (int i = 0; i < index; ++i)
      EXPECT_NE(after.chunks(i).server_id(), before.chunks(i).server_id());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
  }
}

}  // namespace
}  // namespace kintsugi::simulation

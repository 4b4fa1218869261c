// Local and rotated codes in a whole cluster: read through losses, repaired, read again.
#include <algorithm>

#include <fmt/format.h>

#include "erasure/policy.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

class Codes : public ::testing::TestWithParam<const char*> {
 protected:
  const erasure::Policy policy = *erasure::Policy::parse(GetParam());

  ClusterOptions options(uint64_t seed, size_t spare_servers) const {
    return {.seed = seed, .chunkservers = policy.chunks() + spare_servers, .policy = policy.name()};
  }

  /// Around the borders of sub-cell, cell, row and stripe.
  std::vector<uint64_t> sizes() const {
    const uint64_t cell = policy.cell_bytes, row = cell * policy.k, sub_cell = cell / policy.rows();
    const uint64_t stripe = (uint64_t{1} << 20) / cell * row;
    return {
        0, 1, cell, cell + 1, cell + sub_cell + 1, row - 1, row + 1, 2 * row + cell + 7, stripe + cell + 3};
  }

  void put_files(SimulatedCluster& cluster) const {
    size_t number = 0;
    for (const uint64_t size : sizes())
      KINTSUGI_EXPECT_OK(cluster.put(fmt::format("/file-{}", number++), size));
  }
};

TEST_P(Codes, WhatAnyServersAsManyAsAreToleratedHeldIsReadAndRepaired) {
  for (const uint64_t seed : seeds({41, 42})) {
    SimulatedCluster cluster(options(seed, 2 * policy.tolerated()));
    KINTSUGI_ASSERT_OK(cluster.start());
    put_files(cluster);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    for (const size_t lost : cluster.pick(policy.tolerated()))
      cluster.crash_chunkserver(lost, Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    for (const size_t lost : cluster.pick(policy.tolerated()))
      cluster.crash_chunkserver(lost, Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    for (const size_t lost : cluster.pick(policy.tolerated()))
      cluster.crash_chunkserver(lost, Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST_P(Codes, EveryChunkIsRepairedByItself) {
  SimulatedCluster cluster(options(43, 2));
  KINTSUGI_ASSERT_OK(cluster.start());
  KINTSUGI_EXPECT_OK(cluster.put("/file", (uint64_t{1} << 20) * policy.k - 3 * policy.cell_bytes / 2));
  for (uint32_t index = 0; index < policy.chunks(); ++index) {
    SCOPED_TRACE(index);
    const auto stripes = cluster.stripes_of("/file");
    ASSERT_EQ(stripes.size(), 1u);
    const auto holder = cluster.server_of(ServerId{stripes[0].chunks(static_cast<int>(index)).server_id()});
    ASSERT_TRUE(holder);
    cluster.crash_chunkserver(*holder, Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check("/file"));
    cluster.restart_chunkserver(*holder);
    KINTSUGI_EXPECT_OK(cluster.wait_until_alive(*holder));
  }
}

TEST_P(Codes, AnyRangeIsReadThoughServersAreLost) {
  SimulatedCluster cluster(options(44, 1));
  KINTSUGI_ASSERT_OK(cluster.start());
  const uint64_t size = 2 * policy.k * policy.cell_bytes + policy.cell_bytes / 3;
  KINTSUGI_EXPECT_OK(cluster.put("/file", size));
  for (const size_t lost : cluster.pick(policy.tolerated()))
    cluster.crash_chunkserver(lost, Crash::kKill);
  for (int i = 0; i < 20; ++i) {
    const uint64_t length = 1 + cluster.random_below(i % 4 ? 100'000 : 1'500'000);
    KINTSUGI_EXPECT_OK(cluster.check_range("/file", cluster.random_below(size), length));
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, Codes,
                         ::testing::Values("lrc-6-2-2-64k", "lrc-12-2-2-64k", "rrs-6-3-256k",
                                           "rrs-12-4-256k"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(LargeCells, AFileOfOneCellThatIsLargerThanAChunkIsStored) {
  SimulatedCluster cluster({.seed = 47, .chunkservers = 5, .policy = "rs-2-1-2048k", .chunk_bytes = 1 << 20});
  KINTSUGI_ASSERT_OK(cluster.start());
  for (const uint64_t size : {1'000'000, 1'500'000, 2'500'000}) {
    KINTSUGI_EXPECT_OK(cluster.put(fmt::format("/file-{}", size), size));
  }
  KINTSUGI_EXPECT_OK(cluster.check_contents());
}

TEST(LocalCode, RepairsAChunkFromItsLocalGroup) {
  SimulatedCluster cluster({.seed = 45, .chunkservers = 12, .policy = "lrc-6-2-2-64k"});
  KINTSUGI_ASSERT_OK(cluster.start());
  KINTSUGI_EXPECT_OK(cluster.put("/file", 6 << 20));
  const auto stripes = cluster.stripes_of("/file");
  const auto holder = cluster.server_of(ServerId{stripes[0].chunks(1).server_id()});
  ASSERT_TRUE(holder);
  cluster.crash_chunkserver(*holder, Crash::kKill);
  KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
  for (const proto::RepairRecord& record : cluster.repair_history()) {
    EXPECT_EQ(record.index(), 1u);
    EXPECT_EQ(record.helpers_size(), 3);  // two of its group and their parity
  }
  EXPECT_FALSE(cluster.repair_history().empty());
}

}  // namespace
}  // namespace kintsugi::simulation

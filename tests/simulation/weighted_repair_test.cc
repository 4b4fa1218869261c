// Repairs over links of different rates: trees that suit them, and as fast as any choice of helpers allows.
#include <fmt/format.h>

#include "common/proto/names.h"
#include "repair_manager/trees/weighted_tree.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr uint64_t kFast = 20 << 20;  // bytes/s
constexpr uint64_t kSlow = kFast / 4;
constexpr uint64_t kChunkBytes = 16 << 20;
constexpr uint32_t kData = 12;

std::vector<uint64_t> rates(size_t servers, size_t slow_one_in) {
  std::vector<uint64_t> rates(servers, kFast);
  for (size_t server = 0; server < servers; server += slow_one_in)
    rates[server] = kSlow;
  return rates;
}

class Repair {
 public:
  Repair(uint64_t seed, size_t slow_one_in)
      : cluster({.seed = seed,
                 .chunkservers = 20,
                 .racks = 20,
                 .policy = "rs-12-4-64k",
                 .chunk_bytes = kChunkBytes,
                 .link_bytes_per_second = rates(20, slow_one_in)}) {}

  Status start() {
    KINTSUGI_TRY(cluster.start());
    KINTSUGI_TRY(cluster.put("/file", kData * kChunkBytes));
    cluster.run_for(1min);  // until heartbeats no longer tell of users
    return {};
  }

  proto::RepairRecord run(uint32_t index, proto::RepairShape shape) {
    proto::RunRepairRequest request;
    request.set_stripe_id(cluster.stripes_of("/file").at(0).stripe_id());
    request.set_index(index);
    request.set_shape(shape);
    const auto run = cluster.run(cluster.client().run_repair(request));
    EXPECT_TRUE(run) << run.error();
    return run ? run->record() : proto::RepairRecord{};
  }

  double rate_of(uint64_t server_id) {
    return double(cluster.options().link_bytes_per_second[cluster.server_of(ServerId{server_id}).value()]);
  }

  /// Seconds that a repair of the chunk onto that destination takes at least.
  double floor_of(uint32_t index, const proto::Stripe& stripe, uint64_t destination) {
    std::vector<repair_manager::LinkRate> helpers;
    for (const auto& chunk : stripe.chunks())
      if (chunk.index() != index) helpers.push_back({rate_of(chunk.server_id()), rate_of(chunk.server_id())});
    return kChunkBytes / repair_manager::bottleneck_bound(helpers, kData, rate_of(destination));
  }

  SimulatedCluster cluster;
};

TEST(WeightedRepair, IsNearlyAsFastAsAnyChoiceOfHelpersAllows) {
  for (const uint64_t seed : seeds({3})) {
    Repair repair(seed, 3);
    KINTSUGI_ASSERT_OK(repair.start());
    (void)repair.cluster.server_id(0);  // asks who is who
    for (const uint32_t index : {0u, 7u, 14u}) {
      const proto::Stripe stripe = repair.cluster.stripes_of("/file").at(0);
      const proto::RepairRecord record = repair.run(index, proto::RepairShape::AUTO);
      EXPECT_EQ(record.outcome(), proto::RepairRecord::DONE) << record.detail();
      const double floor = repair.floor_of(index, stripe, record.destination());
      // The time to fill the pipelines weighs less with larger chunks.
      EXPECT_LE(record.timing().seconds(), 1.2 * floor)
          << proto::shape_name(record.shape()) << " over " << record.trees() << " trees, estimated "
          << record.estimated_seconds();
      EXPECT_GE(record.timing().seconds(), 0.95 * floor);
    }
    KINTSUGI_EXPECT_OK(repair.cluster.check_contents());
  }
}

TEST(WeightedRepair, GoesOverSeveralTreesWhenTheFastServersDoNotSuffice) {
  Repair repair(4, 3);
  KINTSUGI_ASSERT_OK(repair.start());
  const proto::RepairRecord weighted = repair.run(1, proto::RepairShape::WEIGHTED);
  const proto::RepairRecord chain = repair.run(2, proto::RepairShape::CHAIN);
  EXPECT_EQ(weighted.shape(), proto::RepairShape::WEIGHTED);
  EXPECT_GT(weighted.trees(), 1u);
  EXPECT_LT(weighted.timing().seconds(), 0.6 * chain.timing().seconds());
  KINTSUGI_EXPECT_OK(repair.cluster.check_contents());
}

TEST(WeightedRepair, IsAChainWhereLinksAreAlike) {
  Repair repair(5, 1000);  // one slow server, and others enough
  KINTSUGI_ASSERT_OK(repair.start());
  const proto::RepairRecord record = repair.run(3, proto::RepairShape::AUTO);
  EXPECT_EQ(record.trees(), 1u);
  EXPECT_LE(record.timing().seconds(), 1.1 * kChunkBytes / double(kFast));
}

}  // namespace
}  // namespace kintsugi::simulation

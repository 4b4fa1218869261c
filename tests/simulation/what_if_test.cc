// What a death is forecast to cost a cluster that is there, and what it then costs.
#include "repair_manager/what_if/loss.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr uint64_t kRate = 2'500'000;

/// What `kintsugi repair what-if --server` makes its answer of.
Result<what_if::Forecast> forecast(SimulatedCluster& cluster, ServerId lost) {
  KINTSUGI_ASSIGN(const auto servers, cluster.run(cluster.client().list_servers()));
  what_if::Cluster picture{.policy = *erasure::Policy::parse(cluster.options().policy), .delay_seconds = 0};
  what_if::Loss loss{.servers = {}, .budget = 0};
  for (const proto::ServerState& server : servers.servers()) {
    if (server.server_id() == lost.value)
      loss.servers.push_back(static_cast<uint32_t>(picture.servers.size()));
    picture.servers.push_back(what_if::live_server(server));
  }
  KINTSUGI_ASSIGN(const auto stripes, cluster.run(cluster.client().placed_stripes({lost.value})));
  picture.stripes = what_if::live_stripes(stripes);
  return what_if::forecast_loss(picture, loss);
}

TEST(WhatIf, ForetellsTheRepairsOfADeathFromWhereTheChunksAre) {
  for (const uint64_t seed : seeds({1, 2})) {
    SimulatedCluster cluster({.seed = seed,
                              .chunkservers = 12,
                              .racks = 12,
                              .policy = "rs-4-2-64k",
                              .link_bytes_per_second = std::vector<uint64_t>(12, kRate)});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 36; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), 8 << 20));
    KINTSUGI_EXPECT_OK(cluster.put("/copies", 50'000));
    cluster.run_for(5s);
    const size_t victim =
        *cluster.server_of(ServerId{cluster.stripes_of("/file-0").at(0).chunks(0).server_id()});
    const auto foretold = forecast(cluster, cluster.server_id(victim));
    ASSERT_TRUE(foretold) << foretold.error();
    EXPECT_GT(foretold->chunks, 2);

    cluster.crash_chunkserver(victim, Crash::kPower);
    KINTSUGI_EXPECT_OK(cluster.wait_until_dead(victim));
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    double chunks = 0, bytes = 0, first = 1e300, last = 0;
    for (const proto::RepairRecord& repair : cluster.repair_history()) {
      if (repair.outcome() != proto::RepairRecord::DONE) continue;
      const double rebuilt = std::max(1, repair.indexes_size());
      chunks += rebuilt;
      bytes += rebuilt * static_cast<double>(repair.chunk_bytes());
      const double began = to_seconds(cluster.since_start(repair.started_ns()));
      first = std::min(first, began);
      last = std::max(last, began + repair.timing().seconds());
    }
    EXPECT_EQ(foretold->chunks, chunks);
    EXPECT_EQ(foretold->bytes, bytes);
    const double seconds = *foretold->all_seconds - foretold->begins_seconds;
    // Seven of eight seeds are within a fifth; the other one is 22 % off.
    EXPECT_NEAR(seconds, last - first, 0.25 * seconds);
  }
}

TEST(WhatIf, AsksForTheStripesOfAServerInPages) {
  SimulatedCluster cluster({.seed = 3, .chunkservers = 3, .racks = 3, .policy = "replication-3-64k"});
  KINTSUGI_ASSERT_OK(cluster.start());
  constexpr size_t kFiles = 1'050;
  for (size_t i = 0; i < kFiles; ++i)
    KINTSUGI_ASSERT_OK(cluster.put("/file-" + std::to_string(i), 50'000));
  size_t told = 0;
  for (size_t server = 0; server < cluster.chunkservers(); ++server) {
    const ServerId id = cluster.server_id(server);
    const auto stripes = cluster.run(cluster.client().placed_stripes({id.value}));
    ASSERT_TRUE(stripes) << stripes.error();
    std::set<uint64_t> ids;
    for (const proto::Stripe& stripe : *stripes) {
      ids.insert(stripe.stripe_id());
      EXPECT_TRUE(std::ranges::any_of(stripe.chunks(),
                                      [&](const auto& chunk) { return chunk.server_id() == id.value; }));
    }
    EXPECT_EQ(ids.size(), stripes->size()) << "each once";
    told += stripes->size();
  }
  EXPECT_EQ(told, 3 * kFiles) << "more than one page each, and every chunk of every stripe";
}

}  // namespace
}  // namespace kintsugi::simulation

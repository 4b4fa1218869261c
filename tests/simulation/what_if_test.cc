// What a death is forecast to cost a cluster that is there, and what it then costs.
#include "repair_manager/what_if/loss.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr uint64_t kRate = 2'500'000;

/// What `kintsugi repair what-if` makes its answer of. `heartbeat_seconds` 0: as if all servers were declared dead at once.
Result<what_if::Forecast> forecast(SimulatedCluster& cluster, const std::vector<ServerId>& lost,
                                   double heartbeat_seconds = 1) {
  KINTSUGI_ASSIGN(const auto servers, cluster.run(cluster.client().list_servers()));
  what_if::Cluster picture{.policy = *erasure::Policy::parse(cluster.options().policy),
                           .heartbeat_seconds = heartbeat_seconds,
                           .delay_seconds = 0};
  what_if::Loss loss{.servers = {}, .budget = 0, .seed = cluster.options().seed};
  std::vector<uint64_t> ids;
  for (const proto::ServerState& server : servers.servers()) {
    if (std::ranges::find(lost, ServerId{server.server_id()}) != lost.end()) {
      ids.push_back(server.server_id());
      loss.servers.push_back(static_cast<uint32_t>(picture.servers.size()));
    }
    picture.servers.push_back(what_if::live_server(server));
  }
  KINTSUGI_ASSIGN(const auto stripes, cluster.run(cluster.client().placed_stripes(ids)));
  picture.stripes = what_if::live_stripes(stripes);
  return what_if::forecast_loss(picture, loss);
}

/// The part of the lost bytes that repairs had rebuilt by then, with those of a repair spread evenly over its time.
double rebuilt_by(SimulatedCluster& cluster, const std::vector<proto::RepairRecord>& repairs, double then) {
  double done = 0, all = 0;
  for (const proto::RepairRecord& repair : repairs) {
    if (repair.outcome() != proto::RepairRecord::DONE) continue;
    const double bytes = std::max(1, repair.indexes_size()) * static_cast<double>(repair.chunk_bytes());
    const double began = to_seconds(cluster.since_start(repair.started_ns()));
    all += bytes;
    done += bytes * std::clamp((then - began) / repair.timing().seconds(), 0.0, 1.0);
  }
  return done / all;
}

/// Seconds from `from` until repairs had rebuilt such a part of the lost bytes.
double seconds_until(SimulatedCluster& cluster, double from, double part) {
  const auto repairs = cluster.repair_history();
  double low = from, high = to_seconds(cluster.elapsed());
  while (high - low > 1e-3) {
    const double middle = (low + high) / 2;
    (rebuilt_by(cluster, repairs, middle) < part ? low : high) = middle;
  }
  return high - from;
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
    const auto foretold = forecast(cluster, {cluster.server_id(victim)});
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

/// Has servers send their heartbeats at times of their own, as those do that were not started together.
void start_one_after_another(SimulatedCluster& cluster) {
  for (size_t server = 0; server < cluster.chunkservers(); ++server) {
    cluster.crash_chunkserver(server, Crash::kKill);
    cluster.restart_chunkserver(server);
    cluster.run_for(3s + std::chrono::milliseconds((cluster.options().seed * 613 + server * 387) % 1000));
  }
}

TEST(WhatIf, ForetellsTheRepairsOfARackWhoseServersAreDeclaredDeadOneAfterAnother) {
  constexpr double kParts[] = {1e-6, 0.5, 0.9, 1 - 1e-6};
  for (const uint64_t seed : seeds({1})) {
    SimulatedCluster cluster({.seed = seed,
                              .chunkservers = 12,
                              .racks = 4,
                              .policy = "rs-4-2-64k",
                              .chunk_bytes = 2 << 20,
                              .link_bytes_per_second = std::vector<uint64_t>(12, kRate / 2)});
    KINTSUGI_ASSERT_OK(cluster.start());
    start_one_after_another(cluster);
    for (int i = 0; i < 24; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), 8 << 20));
    cluster.run_for(20s);
    const std::vector<size_t> rack{0, 4, 8};
    std::vector<ServerId> lost;
    for (const size_t server : rack)
      lost.push_back(cluster.server_id(server));
    const auto at_once = forecast(cluster, lost, 0), foretold = forecast(cluster, lost);
    ASSERT_TRUE(at_once && foretold);

    const double killed = to_seconds(cluster.elapsed());
    for (const size_t server : rack)
      cluster.crash_chunkserver(server, Crash::kKill);
    for (const size_t server : rack)
      KINTSUGI_EXPECT_OK(cluster.wait_until_dead(server));
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    std::vector<double> times;
    for (const double part : kParts)
      times.push_back(seconds_until(cluster, killed, part));
    fmt::print("{{\"seed\": {}, \"chunks\": {}, \"took\": [{:.2f}]", seed, foretold->chunks,
               fmt::join(times, ", "));
    for (const auto* each : {&*at_once, &*foretold})
      fmt::print(", \"{}\": [{:.2f}, {:.2f}, {:.2f}, {:.2f}]", each == &*foretold ? "foretold" : "at_once",
                 each->begins_seconds, *each->half_seconds, *each->most_seconds, *each->all_seconds);
    fmt::print("}}\n");
    EXPECT_NEAR(foretold->begins_seconds, times[0], 0.8) << "the draw is not that of the cluster";
    EXPECT_NEAR(*foretold->half_seconds, times[1], 0.2 * times[1]);
    EXPECT_NEAR(*foretold->most_seconds, times[2], 0.15 * times[2]);
    EXPECT_NEAR(*foretold->all_seconds, times[3], 0.15 * times[3]);
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

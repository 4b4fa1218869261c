// A deep check finds what nobody reads, in the middle of whatever else happens; and servers whose processes end are
// missed at once, without needless repairs.
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

using client::DeepCheckReport;

/// The server that has this chunk of the file's stripe with that number.
std::pair<size_t, ChunkId> place(SimulatedCluster& cluster, const std::string& path, size_t stripe,
                                 uint32_t index) {
  (void)cluster.server_id(0);  // asks who is who
  const proto::Stripe found = cluster.stripes_of(path).at(stripe);
  const ServerId id{found.chunks(static_cast<int>(index)).server_id()};
  return {cluster.server_of(id).value(), ChunkId{StripeId{found.stripe_id()}, index}};
}

DeepCheckReport deep_check(SimulatedCluster& cluster, client::DeepCheckOptions options = {}) {
  auto report = cluster.run(cluster.client().deep_check("/", std::move(options)));
  KINTSUGI_EXPECT_OK(report ? Status{} : report.error());
  return report ? std::move(*report) : DeepCheckReport{};
}

/// Nothing is missing, by what the metaserver knows.
Status all_whole(SimulatedCluster& cluster) {
  const auto fsck = cluster.fsck();
  if (!fsck) return fsck.error();
  if (fsck->missing_chunks() == 0 && fsck->lost_stripes() == 0) return {};
  return {Code::kUnavailable, fmt::format("{} chunks are missing", fsck->missing_chunks())};
}

TEST(DeepCheck, RotInDataAndParityIsFoundAndRepairedBeforeItReturns) {
  for (const uint64_t seed : seeds({1, 2, 3, 4})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = seed % 2 == 0 ? 9u : 12u});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", 2 * kWholeStripe));
    KINTSUGI_EXPECT_OK(cluster.put("/small", 100'000));
    KINTSUGI_EXPECT_OK(cluster.check_contents());  // what is read is in memory from here on
    const auto [data_server, data] =
        place(cluster, "/file", 0, static_cast<uint32_t>(cluster.random_below(6)));
    const auto [parity_server, parity] =
        place(cluster, "/file", 1, 6 + static_cast<uint32_t>(cluster.random_below(3)));
    ASSERT_TRUE(cluster.rot(data_server, data));
    ASSERT_TRUE(cluster.rot(parity_server, parity));
    KINTSUGI_EXPECT_OK(all_whole(cluster)) << "the metaserver knows nothing of it";

    const DeepCheckReport report = deep_check(cluster);
    EXPECT_TRUE(report.whole());
    EXPECT_GE(report.chunks_read, 18u);
    ASSERT_EQ(report.damaged.size(), 2u);
    for (const auto& chunk : report.damaged) {
      EXPECT_TRUE(chunk.id == data || chunk.id == parity) << chunk.id;
      EXPECT_EQ(chunk.damage, client::Damage::kCorrupt);
      EXPECT_EQ(chunk.mending, client::Mending::kRepaired);
      EXPECT_EQ(chunk.path, "/file");
    }
    KINTSUGI_EXPECT_OK(all_whole(cluster));
    cluster.run_for(3s);
    KINTSUGI_EXPECT_OK(all_whole(cluster)) << "what servers tell later must not take it back";
    size_t repaired = 0;
    for (const auto& record : cluster.repair_history())
      repaired +=
          record.outcome() == proto::RepairRecord::DONE && record.kind() == proto::RepairRecord::REPAIR;
    EXPECT_EQ(repaired, 2u) << "each was repaired once";
    EXPECT_EQ(deep_check(cluster).chunks_damaged(), 0u);
    // What was repaired carries the file.
    for (const uint32_t index : {0u, 1u, 2u}) {
      const auto [server, chunk] = place(cluster, "/file", 0, (data.index + 1 + index) % 9);
      cluster.crash_chunkserver(server, Crash::kKill);
    }
    KINTSUGI_EXPECT_OK(cluster.check("/file"));
  }
}

TEST(DeepCheck, ACrashInTheMiddleHidesNoDamageElsewhere) {
  for (const uint64_t seed : seeds({11, 12, 13, 14, 15})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 4; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe));
    const auto [data_server, data] = place(cluster, "/file-0", 0, 2);
    const auto [parity_server, parity] = place(cluster, "/file-3", 0, 8);
    ASSERT_TRUE(cluster.rot(data_server, data));
    ASSERT_TRUE(cluster.rot(parity_server, parity));
    size_t victim = 0;
    while (victim == data_server || victim == parity_server || cluster.chunk_files(victim).empty())
      ++victim;
    client::DeepCheckOptions options;
    options.bytes_per_second = 512 << 10;  // 2 s for each chunk: done before repairs of the crash read, too
    client::DeepCheckProgress last;
    options.progress = [&last](const client::DeepCheckProgress& now) { last = now; };
    const auto report = cluster.start_deep_check(std::move(options));
    cluster.run_for(cluster.random_time(500ms, 3s));
    EXPECT_GT(last.bytes, 0u);
    EXPECT_LT(last.bytes, last.total_bytes);
    cluster.crash_chunkserver(victim, seed % 2 == 0 ? Crash::kKill : Crash::kPower);
    ASSERT_TRUE(cluster.simulation().run_until([&] { return report->has_value(); }, 10min));
    ASSERT_TRUE(**report) << (*report)->error();
    const DeepCheckReport& found = ***report;
    std::set<ChunkId> damaged;
    for (const auto& chunk : found.damaged)
      damaged.insert(chunk.id);
    EXPECT_TRUE(damaged.contains(data));
    EXPECT_TRUE(damaged.contains(parity));
    for (const auto& chunk : found.damaged)
      EXPECT_TRUE(chunk.whole()) << chunk.id;
    // What the victim held was read before, is said to be unread, or is elsewhere by now and was read there.
    for (const auto& unread : found.unread)
      EXPECT_EQ(unread.server, cluster.server_id(victim));
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    EXPECT_TRUE(deep_check(cluster).whole());
    EXPECT_EQ(deep_check(cluster).chunks_damaged(), 0u);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(DeepCheck, FindsDamageWhileFilesComeAndGo) {
  for (const uint64_t seed : seeds({21, 22, 23})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 6; ++i)
      KINTSUGI_EXPECT_OK(cluster.put("/file-" + std::to_string(i), kWholeStripe + 300'000));
    const auto [server, rotten] = place(cluster, "/file-5", 0, 7);
    ASSERT_TRUE(cluster.rot(server, rotten));
    client::DeepCheckOptions options;
    options.bytes_per_second = 1 << 20;
    const auto report = cluster.start_deep_check(std::move(options));
    for (int i = 0; i < 4; ++i) {
      cluster.run_for(cluster.random_time(100ms, 1s));
      KINTSUGI_EXPECT_OK(cluster.remove("/file-" + std::to_string(i)));
      KINTSUGI_EXPECT_OK(cluster.put("/new-" + std::to_string(i), 2'000'000));
    }
    ASSERT_TRUE(cluster.simulation().run_until([&] { return report->has_value(); }, 10min));
    ASSERT_TRUE(**report) << (*report)->error();
    EXPECT_TRUE((**report)->whole());
    bool found = false;
    for (const auto& chunk : (**report)->damaged) {
      found = found || chunk.id == rotten;
      EXPECT_TRUE(chunk.id == rotten || chunk.mending == client::Mending::kGone)
          << chunk.id << " of " << chunk.path;
    }
    EXPECT_TRUE(found);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(Suspicion, AServerWhoseProcessEndsIsSuspectWithinASecondAndFsckSaysWhatHangsOnIt) {
  for (const uint64_t seed : seeds({31, 32, 33})) {
    SimulatedCluster cluster({.seed = seed});
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", 2 * kWholeStripe));
    cluster.run_for(cluster.random_time(0s, 2s));
    const auto [victim, chunk] = place(cluster, "/file", 0, 4);
    const size_t held = cluster.chunk_files(victim).size();
    cluster.crash_chunkserver(victim, Crash::kKill);
    cluster.run_for(1s);
    auto state = cluster.liveness(victim);
    ASSERT_TRUE(state) << state.error();
    EXPECT_EQ(*state, proto::ServerState::SUSPECT);
    const auto fsck = cluster.fsck();
    ASSERT_TRUE(fsck) << fsck.error();
    EXPECT_EQ(fsck->missing_chunks(), 0u);
    EXPECT_EQ(fsck->hanging_chunks(), held);
    ASSERT_EQ(fsck->hanging_size(), 1);
    EXPECT_EQ(ServerId{fsck->hanging(0).server().server_id()}, cluster.server_id(victim));
    KINTSUGI_EXPECT_OK(cluster.check("/file"));
    // It comes back before it counts as dead: nothing is repaired.
    cluster.run_for(5s);
    cluster.restart_chunkserver(victim);
    KINTSUGI_EXPECT_OK(cluster.wait_until_alive(victim));
    EXPECT_EQ(cluster.fsck()->hanging_chunks(), 0u);
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    for (const auto& record : cluster.repair_history())
      EXPECT_EQ(record.kind(), proto::RepairRecord::READ) << "suspect does not mean dead";
  }
}

TEST(Suspicion, AConnectionThatBreaksAloneMeansNothing) {
  for (const uint64_t seed : seeds({41, 42, 43})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 9});  // a stripe needs every server
    KINTSUGI_ASSERT_OK(cluster.start());
    KINTSUGI_EXPECT_OK(cluster.put("/file", kWholeStripe));
    for (int i = 0; i < 10; ++i) {
      const size_t server = cluster.random_below(9);
      cluster.network().drop_connections(SimulatedCluster::name(server));
      for (int look = 0; look < 10; ++look) {
        cluster.run_for(50ms);
        const auto state = cluster.liveness(server);
        ASSERT_TRUE(state) << state.error();
        EXPECT_EQ(*state, proto::ServerState::ALIVE) << "it can be called";
      }
      KINTSUGI_EXPECT_OK(cluster.put(fmt::format("/file-{}", i), 2'000'000));
    }
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy(10s));
    EXPECT_TRUE(cluster.repair_history().empty());
  }
}

}  // namespace
}  // namespace kintsugi::simulation

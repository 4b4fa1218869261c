// Heartbeats tell memory, heat, load and links.
#include <random>

#include "chunkserver/service/cache_report.h"
#include "tests/chunkserver/cluster_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

/// Applies what a report tells, as a metaserver does.
struct Known {
  std::map<ChunkId, bool> cached;
  std::map<ChunkId, double> heat;
  void take(const proto::HeartbeatRequest& request) {
    if (request.cache_restated()) *this = {};
    for (const proto::CacheChange& change : request.cache_changes()) {
      const ChunkId id{StripeId(change.stripe_id()), change.index()};
      cached[id] = change.cached();
      heat[id] = change.heat();
    }
    std::erase_if(cached, [](const auto& entry) { return !entry.second; });
  }
};

struct ReportRig {
  simulation::Simulation simulation{1};
  simulation::SimNode node{simulation, "server"};
  ChunkCache cache{64 * kMiB, node.runtime().clock};
  UsageProfile usage{node.runtime().clock};
  CacheReport report{cache, usage, node.runtime().clock};
  Known known;

  void read(uint64_t chunk) {
    cache.admit({chunk_id(chunk), 1, 100}, 0, std::vector<std::byte>(100));
    usage.read(chunk_id(chunk), 1);
  }
  proto::HeartbeatRequest heartbeat(bool arrives = true, bool answered = true) {
    proto::HeartbeatRequest request;
    report.fill(request);
    if (arrives) known.take(request);
    if (arrives && answered) report.delivered(request);
    return request;
  }
};

TEST(CacheReport, TellsEachChangeOnceAndOnlyChanges) {
  ReportRig rig;
  EXPECT_TRUE(rig.heartbeat().cache_restated());
  rig.read(1);
  const auto first = rig.heartbeat();
  ASSERT_EQ(first.cache_changes_size(), 1);
  EXPECT_FALSE(first.cache_restated());
  EXPECT_TRUE(first.cache_changes(0).cached());
  EXPECT_NEAR(first.cache_changes(0).heat(), 1, 1e-6);
  EXPECT_EQ(rig.heartbeat().cache_changes_size(), 0);
  for (int i = 0; i < 10; ++i)
    rig.read(1);
  EXPECT_EQ(rig.heartbeat().cache_changes_size(), 1) << "it became much hotter";
  rig.read(1);
  EXPECT_EQ(rig.heartbeat().cache_changes_size(), 0) << "it became hardly hotter";
  rig.cache.erase(chunk_id(1));
  const auto gone = rig.heartbeat();
  ASSERT_EQ(gone.cache_changes_size(), 1);
  EXPECT_FALSE(gone.cache_changes(0).cached());
  EXPECT_TRUE(rig.known.cached.empty());
}

TEST(CacheReport, TellsTheHottestFirstAndTheOthersLater) {
  ReportRig rig;
  rig.heartbeat();
  const size_t many = 2 * CacheReport::kMaxChanges + 500;
  for (uint64_t chunk = 1; chunk <= many; ++chunk)
    rig.read(chunk);
  for (int i = 0; i < 3; ++i)
    rig.read(many);
  const auto first = rig.heartbeat();
  ASSERT_EQ(static_cast<size_t>(first.cache_changes_size()), CacheReport::kMaxChanges);
  EXPECT_EQ(first.cache_changes(0).stripe_id(), many);
  rig.heartbeat();
  rig.heartbeat();
  EXPECT_EQ(rig.known.cached.size(), many);
  EXPECT_EQ(rig.heartbeat().cache_changes_size(), 0);
}

TEST(CacheReport, TheMetaserverKnowsTheCacheInTheEndWhateverHeartbeatsAreLost) {
  const uint64_t seed = simulation::Simulation::seed_from_environment(9);
  SCOPED_TRACE("KINTSUGI_SIM_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  ReportRig rig;
  for (int step = 0; step < 3000; ++step) {
    for (uint64_t i = random() % 8; i > 0; --i)
      rig.read(random() % 100);
    if (random() % 2 == 0) rig.cache.erase(chunk_id(random() % 100));
    rig.heartbeat(random() % 4 != 0, random() % 4 != 0);
    if (random() % 200 == 0) {
      rig.known = {};
      rig.report.restate();
    }
    rig.simulation.run_for(1s);
    if (step % 50 != 0) continue;
    rig.heartbeat();
    std::map<ChunkId, bool> cached;
    rig.cache.for_each_cached([&](ChunkId id) { cached[id] = true; });
    ASSERT_EQ(rig.known.cached, cached) << "step " << step;
  }
}

TEST(Heartbeat, TellsWhatIsCachedAndHotAndAllOfItAgainAfterARegistration) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(7, 2), chunk_bytes(2 * kMiB, 7)));
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(rig.get(0, chunk_id(7, 2)));
  rig.simulation.run_for(3s);
  Known known;
  for (const auto& heartbeat : rig.meta.heartbeats)
    known.take(heartbeat);
  EXPECT_TRUE(known.cached.contains(chunk_id(7, 2)));
  EXPECT_GT(known.heat[chunk_id(7, 2)], 3.5);
  rig.meta.next_answer.set_register_again(true);
  rig.simulation.run_for(2s);
  rig.meta.heartbeats.clear();
  rig.meta.next_answer.set_register_again(true);
  rig.simulation.run_for(3s);
  Known again;
  bool restated = false;
  for (const auto& heartbeat : rig.meta.heartbeats) {
    restated = restated || heartbeat.cache_restated();
    if (restated) again.take(heartbeat);
  }
  EXPECT_TRUE(restated);
  EXPECT_TRUE(again.cached.contains(chunk_id(7, 2)));
}

TEST(Heartbeat, DoesNotCallAChunkLostThatIsBack) {
  ClusterRig rig(1);
  const auto bytes = chunk_bytes(3 * kMiB, 1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(0x51), bytes));
  rig.simulation.run_for(2s);
  rig.meta.heartbeats.clear();
  KINTSUGI_ASSERT_OK(rig.servers[0].node->disk().flip_bit(
      chunk_file(rig.servers[0].node->disk(), "/disk", chunk_id(0x51, 0)), 4096 + kMiB));
  EXPECT_EQ(rig.get(0, chunk_id(0x51)).error().code(), Code::kCorrupt);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(0x51), bytes));  // as a repair does
  ASSERT_TRUE(rig.meta.heartbeats.empty()) << "it was too slow for this test to say anything";
  rig.simulation.run_for(3s);
  for (const auto& heartbeat : rig.meta.heartbeats)
    EXPECT_EQ(heartbeat.lost_size(), 0);
}

TEST(Heartbeat, TellsHowBusyTheDiskIsAndWhatWasRepaired) {
  ClusterRig rig(1);
  rig.servers[0].node->disk().set_speed({.bytes_per_second = 4 * kMiB});
  const auto bytes = chunk_bytes(20 * kMiB, 1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), bytes));
  rig.simulation.run_for(5s);
  double most = 0;
  for (const auto& heartbeat : rig.meta.heartbeats) {
    most = std::max(most, heartbeat.busy());
    EXPECT_LT(heartbeat.repair_bytes_per_second(), 100'000u) << "writes are not repairs";
  }
  EXPECT_GT(most, 0.9);
  EXPECT_LT(rig.meta.heartbeats.back().busy(), 0.1);
}

}  // namespace
}  // namespace kintsugi::chunkserver

// Servers that are slow: those that the metaserver names, and those that a client finds by itself.
#include <algorithm>

#include <gtest/gtest.h>

#include "client/lib/files/open_files.h"
#include "client/lib/health.h"
#include "tests/client/fake_cluster.h"
#include "tests/expect_ok.h"

namespace kintsugi::client {
namespace {

constexpr uint64_t kCell = 256 << 10;
constexpr uint64_t kCells = 24;

/// A file with whole cells, read one cell at a time through an open handle, which keeps its locations.
struct Rig {
  explicit Rig(uint64_t seed) : cluster(seed), bytes(random_bytes(kCells * kCell, seed)) {
    cluster.meta.policy = "rs-3-2-256k";
    cluster.meta.chunk_bytes = 1 << 20;
    files = cluster.open_files({.read_ahead_bytes = 0});
    auto opened = cluster.run(files->open({}, cluster.meta.add_inode()));
    KINTSUGI_ASSERT(opened);
    handle = std::move(*opened);
    KINTSUGI_EXPECT_OK(cluster.run(handle->file().write({}, 0, bytes)));
    KINTSUGI_EXPECT_OK(cluster.run(handle->sync({})));
  }
  ~Rig() {
    (void)cluster.run(handle->close({}, true));
    handle.reset();
    (void)cluster.run(files->stop());
  }

  /// How long it took, in ms. The bytes are compared.
  double read(uint64_t cell, uint64_t length = kCell) {
    std::vector<std::byte> into(length);
    const TimePoint began = cluster.simulation.now();
    const auto read = cluster.run(handle->file().read({}, cell * kCell, into));
    EXPECT_TRUE(read) << read.error();
    EXPECT_TRUE(std::equal(into.begin(), into.end(), bytes.begin() + static_cast<ptrdiff_t>(cell * kCell)));
    return to_seconds(cluster.simulation.now() - began) * 1e3;
  }
  /// Of so many reads at random.
  double p99(int count) {
    std::vector<double> took;
    for (int i = 0; i < count; ++i)
      took.push_back(read(cluster.simulation.random().below(kCells)));
    std::ranges::sort(took);
    return took[took.size() * 99 / 100];
  }
  /// The server that has one of the first three cells.
  FakeChunkServer& holder(uint32_t cell) {
    const proto::Extent& first = cluster.meta.inodes.begin()->second.extents.front();
    const proto::Stripe& stripe = cluster.meta.stripes.at(first.stripe_id());
    return *cluster.servers[stripe.chunks(static_cast<int>(cell)).server_id() - 1];
  }
  void delay_all(Duration delay) {
    for (auto& server : cluster.servers)
      server->read_delay = delay;
  }
  uint64_t fetches() const {
    uint64_t sum = 0;
    for (const auto& server : cluster.servers)
      sum += server->reads;
    return sum;
  }

  FakeCluster cluster;
  const std::vector<std::byte> bytes;
  std::unique_ptr<OpenFiles> files;
  std::unique_ptr<OpenHandle> handle;
};

TEST(SlowServer, ThatTheMetaserverNamesIsReadFromOnlyWhenOthersAreGone) {
  Rig rig(1);
  FakeChunkServer& slow = rig.holder(0);
  rig.read(0);
  ASSERT_GT(slow.reads, 0u);
  const uint64_t before = slow.reads;
  rig.cluster.meta.slow = {slow.id};
  rig.cluster.simulation.run_for(
      6s);  // the session asks every five seconds: locations that are kept need not be asked for again
  for (uint64_t cell = 0; cell < kCells; ++cell)
    rig.read(cell);
  EXPECT_EQ(slow.reads, before);
  // Two chunks of each stripe may be lost; then the slow server is needed.
  size_t killed = 0;
  for (const auto& server : rig.cluster.servers) {
    if (server->id == slow.id || killed == 2) continue;
    rig.cluster.kill(server->id - 1);
    ++killed;
  }
  for (uint64_t cell = 0; cell < kCells; ++cell)
    rig.read(cell);
  EXPECT_GT(slow.reads, before) << "it is the fallback";
}

TEST(SlowServer, IsWaitedForBySmallReadsAsLongAsItOnlyLags) {
  Rig rig(7);
  FakeChunkServer& slow = rig.holder(0);
  for (int i = 0; i < 100; ++i)
    rig.read(static_cast<uint64_t>(i) % kCells, 4096);
  slow.read_delay = 50ms;
  const uint64_t before = slow.reads, others = rig.fetches() - before;
  for (int i = 0; i < 10; ++i)
    EXPECT_GE(rig.read(0, 4096), 50);
  EXPECT_EQ(slow.reads, before + 10);
  EXPECT_EQ(rig.fetches() - slow.reads, others)
      << "to rebuild 4 KiB from others costs all of them more than it saves one";
}

TEST(SlowServer, IsReadFromAgainOnceItIsNotNamedAnyMore) {
  Rig rig(2);
  FakeChunkServer& slow = rig.holder(1);
  rig.cluster.meta.slow = {slow.id};
  rig.cluster.simulation.run_for(6s);
  const uint64_t before = slow.reads;
  rig.read(1);
  ASSERT_EQ(slow.reads, before);
  rig.cluster.meta.slow.clear();
  rig.cluster.simulation.run_for(6s);
  rig.read(1);
  EXPECT_EQ(slow.reads, before + 1);
}

TEST(Hedge, AServerAHundredTimesSlowerHardlyShowsInThe99thPercentile) {
  for (uint64_t seed = 3; seed < 6; ++seed) {
    Rig rig(seed);
    rig.delay_all(1ms);
    const double healthy = rig.p99(400);
    rig.holder(seed % 3).read_delay = 100ms;
    EXPECT_LE(rig.p99(1000), 2 * healthy) << "seed " << seed;
  }
}

TEST(Hedge, AServerThatHangsHardlyShowsInThe99thPercentile) {
  Rig rig(6);
  rig.delay_all(1ms);
  const double healthy = rig.p99(400);
  rig.holder(1).hangs = true;
  EXPECT_LE(rig.p99(1000), 2 * healthy);
}

TEST(Hedge, AClusterThatIsSlowAsAWholeIsNotAskedForMuchMore) {
  Rig rig(7);
  rig.delay_all(1ms);
  rig.p99(200);
  rig.delay_all(60ms);
  const uint64_t before = rig.fetches();
  rig.p99(200);
  EXPECT_LT(rig.fetches() - before, 300u) << "200 fetches are what is needed";
}

TEST(ServerHealth, AvoidsFewOfThoseThatLagAndForgivesWhoAnswers) {
  simulation::Simulation simulation(1);
  ServerHealth health(simulation.clock());
  for (uint64_t id = 1; id <= 10; ++id)
    health.answered(ServerId{id});
  const ServerId one{1}, other{2};
  health.lagged(one);
  health.lagged(one);
  health.answered(one);
  health.lagged(one);
  EXPECT_FALSE(health.avoid(one)) << "now and then is no rule";
  for (int i = 0; i < ServerHealth::kLagsInARow; ++i)
    for (uint64_t id = 1; id <= 10; ++id)
      health.lagged(ServerId{id});
  EXPECT_EQ(health.avoided().size(), 2u) << "when all of ten lag, it is not they";
  EXPECT_TRUE(health.avoid(one));
  simulation.run_for(ServerHealth::kAvoidFor);
  EXPECT_FALSE(health.avoid(one)) << "it gets another chance";
  health.lagged(one);
  simulation.run_for(ServerHealth::kAvoidFor);
  EXPECT_TRUE(health.avoid(one)) << "which it did not use: it is avoided for longer";
  health.answered(other);
  EXPECT_FALSE(health.avoid(other));
}

TEST(ServerHealth, ForgivesWhoAnswersAlsoWhenItKnowsAsManyServersAsItCan) {
  simulation::Simulation simulation(1);
  ServerHealth health(simulation.clock());
  for (uint64_t id = 1; id <= ServerHealth::kMaxServers; ++id)
    health.answered(ServerId{id});
  const ServerId one{1};
  for (int turn = 0; turn < 10; ++turn) {
    health.lagged(one);
    health.answered(one);
  }
  EXPECT_FALSE(health.avoid(one)) << "now and then is no rule";
}

TEST(ServerHealth, AvoidsWhoFailsAgainAlsoWhenItAvoidsAsManyServersAsItCan) {
  simulation::Simulation simulation(1);
  ServerHealth health(simulation.clock());
  for (uint64_t id = 1; id <= ServerHealth::kMaxServers; ++id)
    health.failed(ServerId{id});
  simulation.run_for(ServerHealth::kAvoidFor / 2);
  const ServerId one{1};
  health.failed(one);
  simulation.run_for(ServerHealth::kAvoidFor - std::chrono::milliseconds(1));
  EXPECT_TRUE(health.avoid(one));
}

}  // namespace
}  // namespace kintsugi::client

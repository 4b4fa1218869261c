// A monitor says of servers that they are slow: everybody goes around them, and nothing becomes unavailable by it, whether the monitor is
// right, wrong or dead.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "common/runtime/fault_points.h"
#include "monitoring/daemon/detector.h"
#include "monitoring/daemon/monitor.h"
#include "tests/simulation/cluster/simulated_cluster.h"
#include "tests/simulation/diagnosis/load.h"

namespace kintsugi::simulation {
namespace {

using runtime::FaultAction;
using runtime::FaultPoint;

constexpr Duration kTold = 5s;  // from the detector over the metaserver to whoever asks there

/// Finds slow whom a test wants it to.
class Accuser final : public monitoring::Detector {
 public:
  explicit Accuser(const std::set<ServerId>& accused) : accused_(accused) {}
  std::string_view name() const override { return "accuser"; }
  std::vector<proto::Verdict> examine(const model::Snapshot&) override {
    std::vector<proto::Verdict> verdicts;
    for (const ServerId server : accused_) {
      proto::Verdict& verdict = verdicts.emplace_back();
      verdict.set_kind(proto::Verdict::DEVICE);
      verdict.set_server_id(server.value);
      verdict.set_process(server.value);
      verdict.set_process_kind("chunkserver");
      verdict.set_device("disk-0");
      verdict.set_factor(3);
      verdict.set_confidence(proto::Verdict::LIKELY);
    }
    return verdicts;
  }

 private:
  const std::set<ServerId>& accused_;
};

/// A cluster whose monitor says what the test says.
class Accused {
 public:
  explicit Accused(uint64_t seed, size_t chunkservers = 10)
      : cluster({.seed = seed,
                 .chunkservers = chunkservers,
                 .racks = chunkservers,
                 .monitor = true,
                 .detectors =
                     [this] {
                       std::vector<std::unique_ptr<monitoring::Detector>> detectors;
                       detectors.push_back(std::make_unique<Accuser>(accused));
                       return detectors;
                     },
                 .cache_bytes = 0}) {}

  void accuse(std::vector<size_t> servers) {
    accused.clear();
    for (const size_t server : servers)
      accused.insert(cluster.server_id(server));
  }
  std::set<size_t> gone_around() {
    std::set<size_t> found;
    const auto list = cluster.run(cluster.client().list_servers());
    EXPECT_TRUE(list);
    if (!list) return found;
    for (const proto::ServerState& state : list->servers())
      if (state.has_slow()) found.insert(*cluster.server_of(ServerId{state.server_id()}));
    return found;
  }
  Status wait_until_gone_around(const std::set<size_t>& wanted, Duration limit = kTold) {
    return cluster.wait_until(
        [&] { return gone_around() == wanted ? Status{} : Status{Code::kUnavailable, "not yet"}; }, limit);
  }
  size_t chunks_placed_on(const std::string& path, size_t server) {
    size_t count = 0;
    for (const proto::Stripe& stripe : cluster.stripes_of(path))
      for (const proto::ChunkPlacement& chunk : stripe.chunks())
        count += ServerId{chunk.server_id()} == cluster.server_id(server);
    return count;
  }
  /// Chunks that the server has sent since count_reads().
  void count_reads(size_t server) {
    runtime::FaultPoints& faults = cluster.node(server).faults();
    faults.clear();
    KINTSUGI_EXPECT_OK(status_of(faults.set({.point = FaultPoint::kSendChunk, .skip = UINT64_MAX})));
  }
  uint64_t reads(size_t server) { return cluster.node(server).faults().list().front().passed; }

  std::set<ServerId> accused;
  SimulatedCluster cluster;

 private:
  static Status status_of(const Result<uint64_t>& result) { return result ? Status{} : result.error(); }
};

TEST(SlowServers, GetNoNewStripesAndNoReadsWhileOthersCan) {
#ifndef KINTSUGI_FAULT_POINTS
  GTEST_SKIP() << "reads are counted at a fault point, and none is built in";
#endif
  for (const uint64_t seed : seeds({1, 2, 3})) {
    Accused test(seed);
    KINTSUGI_ASSERT_OK(test.cluster.start());
    KINTSUGI_ASSERT_OK(test.cluster.put("/before", 6'000'000));
    const size_t slow = test.cluster.random_below(10);
    test.accuse({slow});
    KINTSUGI_ASSERT_OK(test.wait_until_gone_around({slow}));
    KINTSUGI_EXPECT_OK(test.cluster.put("/after", 6'000'000));
    EXPECT_EQ(test.chunks_placed_on("/after", slow), 0u);
    test.count_reads(slow);
    KINTSUGI_EXPECT_OK(test.cluster.check_contents());
    EXPECT_EQ(test.reads(slow), 0u);
    test.accuse({});
    KINTSUGI_ASSERT_OK(test.wait_until_gone_around({}, kTold + monitoring::Alarms::kSettle));
    for (int i = 0; i < 3 && test.reads(slow) == 0; ++i) {
      KINTSUGI_EXPECT_OK(test.cluster.put(fmt::format("/again-{}", i), 6'000'000));
      KINTSUGI_EXPECT_OK(test.cluster.check_contents());
    }
    EXPECT_GT(test.reads(slow), 0u) << "it is one of them again";
  }
}

TEST(SlowServers, AWrongMonitorMakesNothingUnavailable) {
  for (const uint64_t seed : seeds({1, 2, 3, 4})) {
    Accused test(seed);
    SimulatedCluster& cluster = test.cluster;
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 4; ++i)
      KINTSUGI_ASSERT_OK(cluster.put(fmt::format("/before-{}", i), 30'000 + 1'500'000 * i));
    for (int round = 0; round < 4; ++round) {
      // Everybody is accused, and others in each round; three of those that are not gone around die.
      std::vector<size_t> all{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
      if (round % 2 == 1) all = cluster.pick(2);
      test.accuse(all);
      cluster.run_for(kTold);
      const std::set<size_t> around = test.gone_around();
      EXPECT_EQ(around.size(), 2u);
      std::vector<size_t> dead;
      for (const size_t server : cluster.pick(10))
        if (!around.contains(server) && dead.size() < 3) dead.push_back(server);
      for (const size_t server : dead)
        cluster.crash_chunkserver(server, Crash::kKill);
      KINTSUGI_EXPECT_OK(cluster.check_contents()) << "round " << round;
      KINTSUGI_EXPECT_OK(cluster.put(fmt::format("/during-{}", round), 3'000'000));
      for (const size_t server : dead)
        cluster.restart_chunkserver(server);
      KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    }
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(SlowServers, AreForgottenWhenTheMonitorDies) {
#ifndef KINTSUGI_FAULT_POINTS
  GTEST_SKIP() << "reads are counted at a fault point, and none is built in";
#endif
  Accused test(5);
  KINTSUGI_ASSERT_OK(test.cluster.start());
  KINTSUGI_ASSERT_OK(test.cluster.put("/file", 6'000'000));
  test.accuse({4});
  KINTSUGI_ASSERT_OK(test.wait_until_gone_around({4}));
  test.cluster.crash_monitor();
  test.cluster.run_for(10s);
  EXPECT_EQ(test.gone_around(), std::set<size_t>{4}) << "it may be on its way back";
  KINTSUGI_EXPECT_OK(test.wait_until_gone_around({}, 30s));
  test.count_reads(4);
  test.cluster.run_for(1s);
  for (int i = 0; i < 3; ++i) {
    KINTSUGI_EXPECT_OK(test.cluster.put(fmt::format("/again-{}", i), 6'000'000));
    KINTSUGI_EXPECT_OK(test.cluster.check_contents());
  }
  EXPECT_GT(test.reads(4), 0u);
  test.cluster.restart_monitor();
  KINTSUGI_EXPECT_OK(test.wait_until_gone_around({4}, 20s));
}

TEST(SlowServers, ARestartedMetaserverIsToldAgain) {
  for (const uint64_t seed : seeds({1, 2})) {
    Accused test(seed);
    KINTSUGI_ASSERT_OK(test.cluster.start());
    KINTSUGI_ASSERT_OK(test.cluster.put("/file", 6'000'000));
    test.accuse({7});
    KINTSUGI_ASSERT_OK(test.wait_until_gone_around({7}));
    test.cluster.crash_metaserver();
    test.cluster.run_for(test.cluster.random_time(10ms, 5s));
    test.cluster.restart_metaserver();
    KINTSUGI_EXPECT_OK(test.cluster.check_contents());
    KINTSUGI_EXPECT_OK(test.wait_until_gone_around({7}, 20s));
    KINTSUGI_EXPECT_OK(test.cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(test.cluster.put("/after", 6'000'000));
    EXPECT_EQ(test.chunks_placed_on("/after", 7), 0u);
  }
}

TEST(SlowServers, ADiskThatBecameSlowIsGoneAroundWithinAMinute) {
  SimulatedCluster cluster({.seed = 3, .racks = 10, .clients = 4, .monitor = true});
  KINTSUGI_ASSERT_OK(cluster.start());
  Load load(cluster);
  KINTSUGI_ASSERT_OK(load.start());
  cluster.run_for(60s);
  const size_t slow = 6;
  cluster.disk(slow).set_slow(20);
  const auto gone_around = [&]() -> Status {
    const auto list = cluster.run(cluster.client().list_servers());
    if (!list) return list.error();
    for (const proto::ServerState& state : list->servers())
      if (state.has_slow())
        return cluster.server_id(slow) == ServerId{state.server_id()}
                   ? Status{}
                   : Status{Code::kInternal, "another one"};
    return {Code::kUnavailable, "not yet"};
  };
  KINTSUGI_EXPECT_OK(cluster.wait_until(gone_around, 60s));
  cluster.disk(slow).set_slow(1);
}

}  // namespace
}  // namespace kintsugi::simulation

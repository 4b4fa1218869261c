// Servers that operators say will be away, and the limit of repairs, while servers really die and the metaserver starts anew.
#include <gmock/gmock.h>

#include "common/base/operator_limits.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

using ::testing::IsEmpty;

/// Attempts to repair a chunk that the server had.
std::vector<std::string> repairs_for(SimulatedCluster& cluster, const std::string& reason) {
  std::vector<std::string> found;
  for (const proto::RepairRecord& record : cluster.repair_history())
    if (record.reason().find(reason) != std::string::npos) found.push_back(record.reason());
  return found;
}

std::string name_of(SimulatedCluster& cluster, size_t server) {
  const auto list = cluster.run(cluster.client().list_servers());
  if (!list) return "";
  for (const proto::ServerState& state : list->servers())
    if (state.server_id() == cluster.server_id(server).value) return state.name();
  return "";
}

Status maintain(SimulatedCluster& cluster, size_t server, uint64_t seconds) {
  return cluster.run(cluster.client().maintain_server(cluster.server_id(server).value, seconds));
}

TEST(Maintenance, AServerIsWaitedForAlsoByMetaserversThatStartMeanwhileAndNotByStripesThatLoseMore) {
  for (const uint64_t seed : seeds({1, 2, 3})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 12, .repair_managers = 2});
    KINTSUGI_ASSERT_OK(cluster.start());
    for (int i = 0; i < 30; ++i)
      KINTSUGI_ASSERT_OK(cluster.put("/f" + std::to_string(i), 2'000'000));
    const std::vector<size_t> picked = cluster.pick(2);
    const size_t away = picked[0], dead = picked[1];
    const std::string reason = "server " + name_of(cluster, away) + " dead";
    KINTSUGI_ASSERT_OK(maintain(cluster, away, 3600));
    cluster.crash_chunkserver(away, Crash::kKill);
    KINTSUGI_ASSERT_OK(cluster.wait_until_dead(away));
    cluster.run_for(cluster.random_time(5s, 20s));
    cluster.crash_metaserver();
    cluster.run_for(cluster.random_time(1s, 5s));
    cluster.restart_metaserver();
    KINTSUGI_ASSERT_OK(cluster.wait_until_dead(away));
    cluster.crash_repair_manager(0, Crash::kKill);
    cluster.run_for(2min);
    cluster.restart_repair_manager(0);
    cluster.run_for(1min);
    // The repair delay is 0: any other server's chunks would have been rebuilt long ago.
    EXPECT_THAT(repairs_for(cluster, reason), IsEmpty());
    const auto before = cluster.fsck();
    ASSERT_TRUE(before) << before.error();
    EXPECT_GT(before->missing_chunks(), 0u);
    KINTSUGI_EXPECT_OK(cluster.check_contents());

    cluster.crash_chunkserver(dead, Crash::kKill);
    KINTSUGI_ASSERT_OK(cluster.wait_until_dead(dead));
    // What lacks chunks of both is whole again, and nothing lacks one of the server that died.
    const uint64_t awaited = cluster.server_id(away).value;
    const auto only_awaited = [&]() -> Status {
      const auto checked = cluster.fsck();
      if (!checked) return checked.error();
      for (const proto::FsckProblem& problem : checked->problems()) {
        if (problem.missing_size() > 1) return {Code::kUnavailable, "a stripe lacks two chunks"};
        const auto shown = cluster.run(cluster.client().show_stripe(problem.stripe_id()));
        if (!shown) return shown.error();
        for (const uint32_t index : problem.missing())
          if (shown->stripe().chunks(static_cast<int>(index)).server_id() != awaited)
            return {Code::kUnavailable, "a chunk of the server that died is missing"};
      }
      return {};
    };
    KINTSUGI_EXPECT_OK(cluster.wait_until(only_awaited, 10min));
    cluster.run_for(1min);
    KINTSUGI_EXPECT_OK(only_awaited());
    const auto after = cluster.fsck();
    ASSERT_TRUE(after) << after.error();
    EXPECT_LT(after->missing_chunks(), before->missing_chunks());
    EXPECT_GT(after->missing_chunks(), 0u) << "stripes that lack only the awaited server's chunk wait";

    if (seed % 2 == 0) {
      cluster.restart_chunkserver(away);  // it is back in time
    } else {
      KINTSUGI_ASSERT_OK(maintain(cluster, away, 0));  // it is not coming back
    }
    cluster.restart_chunkserver(dead);
    KINTSUGI_EXPECT_OK(cluster.wait_until_alive(dead));
    const auto whole = [&] {
      const auto checked = cluster.fsck();
      if (!checked) return checked.error();
      return checked->missing_chunks() == 0 ? Status{} : Status{Code::kUnavailable, "chunks are missing"};
    };
    KINTSUGI_EXPECT_OK(cluster.wait_until(whole, 10min));
    if (seed % 2 != 0) EXPECT_FALSE(repairs_for(cluster, reason).empty());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(Maintenance, AServerThatDoesNotComeBackInTimeIsRepairedThen) {
  SimulatedCluster cluster({.seed = 5, .chunkservers = 11, .racks = 11});
  KINTSUGI_ASSERT_OK(cluster.start());
  KINTSUGI_ASSERT_OK(cluster.put("/f", 3'000'000));
  const size_t away = *cluster.server_of(ServerId{cluster.stripes_of("/f").front().chunks(0).server_id()});
  KINTSUGI_ASSERT_OK(maintain(cluster, away, 120));
  const Duration began = cluster.elapsed();
  cluster.crash_chunkserver(away, Crash::kKill);
  KINTSUGI_ASSERT_OK(cluster.wait_until_healthy());
  EXPECT_GT(cluster.elapsed() - began, 115s);
  EXPECT_LT(cluster.elapsed() - began, 180s);
}

TEST(Maintenance, AChunkThatWasLostBeforeItsServerWentAwayIsNotAwaited) {
  SimulatedCluster cluster({.seed = 6, .chunkservers = 13, .racks = 13});
  KINTSUGI_ASSERT_OK(cluster.start());
  KINTSUGI_ASSERT_OK(cluster.put("/f", kWholeStripe));
  const proto::Stripe stripe = cluster.stripes_of("/f").front();
  const auto holder = [&](int index) {
    return *cluster.server_of(ServerId{stripe.chunks(index).server_id()});
  };
  const std::vector<size_t> away{holder(0), holder(3)};
  // Nobody repairs until both are away.
  cluster.crash_repair_manager(0, Crash::kKill);
  ASSERT_TRUE(cluster.rot(away[0], {StripeId{stripe.stripe_id()}, 0}));
  KINTSUGI_ASSERT_OK(cluster.check("/f"));
  for (const size_t server : away)
    KINTSUGI_ASSERT_OK(maintain(cluster, server, 3600));
  for (const size_t server : away)
    cluster.crash_chunkserver(server, Crash::kKill);
  for (const size_t server : away)
    KINTSUGI_ASSERT_OK(cluster.wait_until_dead(server));
  cluster.restart_repair_manager(0);
  const auto whole = [&]() -> Status {
    const auto checked = cluster.fsck();
    if (!checked) return checked.error();
    return checked->missing_chunks() == 0 ? Status{} : Status{Code::kUnavailable, "chunks are missing"};
  };
  KINTSUGI_EXPECT_OK(cluster.wait_until(whole, 2min)) << "one chunk is lost, and one spare chunk is left";
  KINTSUGI_EXPECT_OK(cluster.check_contents());
}

TEST(Maintenance, TheLimitSlowsRepairsThatRunAndNotThoseOfStripesWithoutASpareChunk) {
  constexpr uint64_t kLimit = kLeastRepairLimit;
  for (const uint64_t seed : seeds({1, 2})) {
    SimulatedCluster cluster(
        {.seed = seed, .chunkservers = 16, .racks = 16, .repair_managers = 2, .chunk_bytes = 64 << 20});
    KINTSUGI_ASSERT_OK(cluster.start());
    // A stripe of rs-6-3 with chunks of some 33 MiB, which take 8 s at that limit.
    KINTSUGI_ASSERT_OK(cluster.put("/one", 200'000'000));
    KINTSUGI_ASSERT_OK(cluster.run(cluster.client().limit_repairs(kLimit)));
    cluster.crash_metaserver();
    cluster.run_for(1s);
    cluster.restart_metaserver();
    cluster.run_for(15s);
    const auto holder = [&](int index) {
      return *cluster.server_of(ServerId{cluster.stripes_of("/one").front().chunks(index).server_id()});
    };
    const auto whole = [&]() -> Status {
      const auto checked = cluster.fsck();
      if (!checked) return checked.error();
      return checked->missing_chunks() == 0 ? Status{} : Status{Code::kUnavailable, "chunks are missing"};
    };
    const size_t first = holder(4);
    cluster.crash_chunkserver(first, Crash::kKill);
    const auto limited = cluster.repair_status();
    ASSERT_TRUE(limited) << limited.error();
    EXPECT_EQ(limited->limit_bytes_per_second(), kLimit);
    KINTSUGI_ASSERT_OK(cluster.wait_until_dead(first));
    Duration began = cluster.elapsed();
    KINTSUGI_ASSERT_OK(cluster.wait_until(whole, 10min));
    EXPECT_GT(cluster.elapsed() - began, 7s);
    for (const proto::RepairRecord& record : cluster.repair_history())
      EXPECT_EQ(record.outcome(), proto::RepairRecord::DONE) << record.detail();

    // Three are away: one more loss would make the file unreadable, so that nobody waits for them, nor for the limit.
    const std::vector<size_t> lost{holder(0), holder(3), holder(7)};
    for (const size_t server : lost)
      KINTSUGI_ASSERT_OK(maintain(cluster, server, 3600));
    for (const size_t server : lost)
      cluster.crash_chunkserver(server, Crash::kKill);
    for (const size_t server : lost)
      KINTSUGI_ASSERT_OK(cluster.wait_until_dead(server));
    began = cluster.elapsed();
    KINTSUGI_ASSERT_OK(cluster.wait_until(whole, 10min));
    EXPECT_LT(cluster.elapsed() - began, 5s) << "as fast as links allow";

    // Taken away while a repair runs, it does not slow the rest of it.
    KINTSUGI_ASSERT_OK(cluster.put("/two", 350'000'000));
    const size_t last =
        *cluster.server_of(ServerId{cluster.stripes_of("/two").front().chunks(1).server_id()});
    cluster.crash_chunkserver(last, Crash::kKill);
    KINTSUGI_ASSERT_OK(cluster.wait_until_dead(last));
    cluster.run_for(2s);
    KINTSUGI_ASSERT_OK(cluster.run(cluster.client().limit_repairs(0)));
    began = cluster.elapsed();
    KINTSUGI_ASSERT_OK(cluster.wait_until(whole, 10min));
    EXPECT_LT(cluster.elapsed() - began, 6s);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

}  // namespace
}  // namespace kintsugi::simulation

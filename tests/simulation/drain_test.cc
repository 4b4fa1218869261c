// Servers leave and come: their chunks are moved, users notice nothing, and each chunk is in one place at the
// end.
#include <algorithm>

#include <fmt/format.h>

#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

constexpr Duration kDrainLimit = std::chrono::minutes(10);

proto::ServerState state_of(SimulatedCluster& cluster, size_t server) {
  const ServerId id = cluster.server_id(server);
  const auto list = cluster.run(cluster.client().list_servers());
  if (!list) return {};
  for (const proto::ServerState& state : list->servers())
    if (ServerId{state.server_id()} == id) return state;
  return {};
}

Status drain(SimulatedCluster& cluster, size_t server, bool wanted = true) {
  return cluster.run(cluster.client().drain_server(cluster.server_id(server).value, wanted));
}

/// `server list` shows that nothing is on it any more.
Status wait_until_empty(SimulatedCluster& cluster, size_t server) {
  const auto look = [&]() -> Status {
    const proto::ServerState state = state_of(cluster, server);
    if (state.server_id() == 0 || !state.draining()) return {Code::kUnavailable, "it is not draining"};
    if (state.chunks() == 0) return {};
    return {Code::kUnavailable, fmt::format("{} chunks are left", state.chunks())};
  };
  return cluster.wait_until(look, kDrainLimit);
}

/// Checks chunks in files of their own: they are at the place that the metadata names, and nowhere else.
void expect_one_copy_each(SimulatedCluster& cluster) {
  KINTSUGI_EXPECT_OK(cluster.wait_until_no_stray_chunks());
  for (const std::string& path : cluster.paths()) {
    if (!cluster.exists(path)) continue;
    for (const proto::Stripe& stripe : cluster.stripes_of(path))
      for (const proto::ChunkPlacement& chunk : stripe.chunks()) {
        if (chunk.length() < cluster.options().chunk_bytes) continue;
        const std::vector<size_t> holders = cluster.holders({StripeId{stripe.stripe_id()}, chunk.index()});
        const auto runs = [&](size_t server) { return cluster.running(server); };
        EXPECT_EQ(std::count_if(holders.begin(), holders.end(), runs), 1)
            << stripe.stripe_id() << ":" << chunk.index();
      }
  }
}

size_t chunks_placed_on(SimulatedCluster& cluster, size_t server) {
  const ServerId id = cluster.server_id(server);
  size_t count = 0;
  for (const std::string& path : cluster.paths())
    for (const proto::Stripe& stripe : cluster.stripes_of(path))
      for (const proto::ChunkPlacement& chunk : stripe.chunks())
        count += ServerId{chunk.server_id()} == id;
  return count;
}

void put_files(SimulatedCluster& cluster, int count) {
  for (int i = 0; i < count; ++i)
    KINTSUGI_EXPECT_OK(cluster.put(fmt::format("/file-{}", i), 30'000 + 700'000 * (i % 11)));
}

TEST(Drain, AServerIsEmptiedByCopiesAndMayBeRemoved) {
  for (const uint64_t seed : seeds({1, 2, 3, 4})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    put_files(cluster, 15);
    const size_t leaving = cluster.pick(1).front();
    const size_t held = chunks_placed_on(cluster, leaving);
    ASSERT_GT(held, 0u);
    KINTSUGI_ASSERT_OK(drain(cluster, leaving));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    KINTSUGI_EXPECT_OK(wait_until_empty(cluster, leaving));
    EXPECT_EQ(chunks_placed_on(cluster, leaving), 0u);
    size_t moves = 0;
    for (const proto::RepairRecord& record : cluster.repair_history()) {
      if (record.outcome() != proto::RepairRecord::DONE) continue;
      EXPECT_EQ(record.kind(), proto::RepairRecord::MOVE);
      EXPECT_EQ(record.helpers_size(), 1) << "copied, not decoded";
      ++moves;
    }
    EXPECT_EQ(moves, held);
    expect_one_copy_each(cluster);
    KINTSUGI_EXPECT_OK(cluster.run(cluster.client().remove_server(cluster.server_id(leaving).value)));
    cluster.crash_chunkserver(leaving, Crash::kKill);
    // All that the stripes can lose may go now.
    for (const size_t lost : cluster.pick(3))
      cluster.crash_chunkserver(lost, Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

TEST(Drain, GoesOnUnderLoadWhileServersAndTheMetaserverCrash) {
  for (const uint64_t seed : seeds({11, 12, 13, 14, 15, 16, 17, 18, 19, 20})) {
    SimulatedCluster cluster(
        {.seed = seed, .chunkservers = 14, .racks = 7, .repair_managers = seed % 2 ? 2u : 1u});
    KINTSUGI_ASSERT_OK(cluster.start());
    put_files(cluster, 20);
    const std::vector<size_t> chosen = cluster.pick(2);
    const size_t leaving = chosen[0], crashing = chosen[1];
    KINTSUGI_ASSERT_OK(drain(cluster, leaving));
    std::vector<SimulatedCluster::OperationPtr> operations;
    for (int i = 0; i < 20; ++i) {
      operations.push_back(cluster.start_check(fmt::format("/file-{}", i)));
      operations.push_back(cluster.start_put(fmt::format("/new-{}", i), 100'000 + 500'000 * (i % 5)));
      cluster.run_for(cluster.random_time(0ms, 100ms));
      if (i == 7) cluster.crash_chunkserver(crashing, Crash::kPower);
      if (i == 12 && seed % 3 == 0) {
        cluster.crash_metaserver();
        cluster.run_for(cluster.random_time(0s, 3s));
        cluster.restart_metaserver();
      }
    }
    for (const auto& operation : operations)
      KINTSUGI_EXPECT_OK(cluster.finish(operation));
    if (seed % 2) cluster.restart_chunkserver(crashing);
    KINTSUGI_EXPECT_OK(wait_until_empty(cluster, leaving));
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    EXPECT_EQ(chunks_placed_on(cluster, leaving), 0u);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    expect_one_copy_each(cluster);
  }
}

TEST(Drain, AServerThatDiesWhileItIsDrainedIsRepairedInsteadAndStaysDrainedWhenItIsBack) {
  for (const uint64_t seed : seeds({31, 32, 33, 34, 35, 36})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    put_files(cluster, 20);
    const size_t leaving = cluster.pick(1).front();
    KINTSUGI_ASSERT_OK(drain(cluster, leaving));
    cluster.run_for(cluster.random_time(0ms, 600ms));
    cluster.crash_chunkserver(leaving, Crash::kPower);
    cluster.run_for(cluster.random_time(0s, 15s));
    cluster.restart_chunkserver(leaving);
    KINTSUGI_EXPECT_OK(cluster.wait_until_alive(leaving));
    KINTSUGI_EXPECT_OK(wait_until_empty(cluster, leaving));
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    expect_one_copy_each(cluster);
  }
}

TEST(Drain, UndrainStopsIt) {
  for (const uint64_t seed : seeds({41, 42, 43})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 12, .racks = 6});
    KINTSUGI_ASSERT_OK(cluster.start());
    put_files(cluster, 40);
    const size_t staying = cluster.pick(1).front();
    KINTSUGI_ASSERT_OK(drain(cluster, staying));
    cluster.run_for(270ms);
    KINTSUGI_ASSERT_OK(drain(cluster, staying, false));
    cluster.run_for(5s);
    const size_t left = chunks_placed_on(cluster, staying);
    cluster.run_for(20s);
    EXPECT_EQ(chunks_placed_on(cluster, staying), left);
    const auto status = cluster.repair_status();
    ASSERT_TRUE(status) << status.error();
    EXPECT_EQ(status->queued() + status->delayed(), 0u);
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    expect_one_copy_each(cluster);
  }
}

TEST(Rebalance, ANewServerFillsUntilTheDifferenceIsSmall) {
  for (const uint64_t seed : seeds({51, 52, 53})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 5, .racks = 5, .policy = "rs-2-1-64k"});
    constexpr uint64_t kCapacity = 160 << 20;
    for (size_t server = 0; server < cluster.chunkservers(); ++server)
      cluster.disk(server).set_capacity("/disk-0", kCapacity);
    KINTSUGI_ASSERT_OK(cluster.start());
    // The last one comes later.
    const size_t late = 4;
    cluster.crash_chunkserver(late, Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.wait_until_dead(late));
    for (int i = 0; i < 40; ++i)
      KINTSUGI_EXPECT_OK(cluster.put(fmt::format("/file-{}", i), 2 << 20));
    const auto share = [&](size_t server) {
      const proto::ServerState state = state_of(cluster, server);
      return 1 - static_cast<double>(state.free_bytes()) / static_cast<double>(state.total_bytes());
    };
    const auto spread = [&] {
      double least = 1, most = 0;
      for (size_t server = 0; server < cluster.chunkservers(); ++server) {
        least = std::min(least, share(server));
        most = std::max(most, share(server));
      }
      return most - least;
    };
    cluster.run_for(1500ms);  // heartbeats
    EXPECT_GT(share(0), 0.14);
    cluster.restart_chunkserver(late);
    KINTSUGI_EXPECT_OK(cluster.wait_until_alive(late));
    cluster.run_for(1500ms);
    const auto even = [&]() -> Status {
      return spread() <= 0.105 ? Status{} : Status{Code::kUnavailable, fmt::format("{} apart", spread())};
    };
    KINTSUGI_EXPECT_OK(cluster.wait_until(even, std::chrono::minutes(5)));
    const size_t moved = chunks_placed_on(cluster, late);
    EXPECT_GT(moved, 0u);
    cluster.run_for(60s);
    EXPECT_LE(chunks_placed_on(cluster, late), moved + 5) << "it stops, and nothing swings back and forth";
    KINTSUGI_EXPECT_OK(cluster.wait_until_healthy());
    KINTSUGI_EXPECT_OK(cluster.check_contents());
    expect_one_copy_each(cluster);
  }
}

TEST(Rebalance, MovesToAServerThatTakesNoneAreTriedLessAndLessOften) {
  for (const uint64_t seed : seeds({61})) {
    SimulatedCluster cluster({.seed = seed, .chunkservers = 5, .racks = 5, .policy = "rs-2-1-64k"});
    for (size_t server = 0; server < cluster.chunkservers(); ++server)
      cluster.disk(server).set_capacity("/disk-0", 160 << 20);
    KINTSUGI_ASSERT_OK(cluster.start());
    const size_t late = 4;
    cluster.crash_chunkserver(late, Crash::kKill);
    KINTSUGI_EXPECT_OK(cluster.wait_until_dead(late));
    for (int i = 0; i < 40; ++i)
      KINTSUGI_EXPECT_OK(cluster.put(fmt::format("/file-{}", i), 2 << 20));
    cluster.restart_chunkserver(late);
    // Whatever is written there fails, and says nothing of the disk.
    cluster.disk(late).fail_next(SIZE_MAX, Code::kOutOfMemory, "/disk-0", DiskOp::kWrite);
    KINTSUGI_EXPECT_OK(cluster.wait_until_alive(late));
    const auto failures_in = [&](Duration time) {
      const uint64_t before = cluster.repair_status()->failed();
      cluster.run_for(time);
      return cluster.repair_status()->failed() - before;
    };
    const uint64_t at_first = failures_in(2min);
    EXPECT_GT(at_first, 0u);
    const auto says_so = [&]() -> Status {
      if (state_of(cluster, late).held_back().ms_left() > 0) return {};
      return {Code::kUnavailable, "nobody says that moves are held back"};
    };
    KINTSUGI_EXPECT_OK(cluster.wait_until(says_so, 5min));
    EXPECT_EQ(state_of(cluster, late).held_back().server(), state_of(cluster, late).name());
    EXPECT_FALSE(state_of(cluster, 0).has_held_back());
    cluster.run_for(15min);
    EXPECT_LT(failures_in(15min), 4 * at_first) << "that is about half as often at most";
    cluster.disk(late).forget_faults();
    const auto takes_some = [&]() -> Status {
      if (chunks_placed_on(cluster, late) > 0) return {};
      return {Code::kUnavailable, "nothing is moved there"};
    };
    KINTSUGI_EXPECT_OK(cluster.wait_until(takes_some, 20min));
    KINTSUGI_EXPECT_OK(cluster.check_contents());
  }
}

}  // namespace
}  // namespace kintsugi::simulation

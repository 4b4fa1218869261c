// Coarse simulations: exact where nothing is coarse, cheaper and nearly right where something is.
#include "repair_manager/what_if/knobs.h"

#include <cmath>

#include <gtest/gtest.h>

#include "repair_manager/manager/repair_manager.h"
#include "repair_manager/what_if/bundles.h"
#include "repair_manager/what_if/loss.h"
#include "repair_manager/what_if/virtual_world.h"
#include "tests/benchmarks/lost_server.h"
#include "tests/what_if/quiet.h"

namespace kintsugi::what_if {
namespace {

using repair_manager::Options;
using repair_manager::RepairManager;

/// What was rebuilt when, and where it went: the schedule.
using Schedule = std::vector<std::tuple<TimePoint, TimePoint, uint64_t, uint64_t>>;

/// `level`: of all blocks but bundles; nothing: the repair manager and the network are left as they are made.
Schedule schedule_of(const FluidSettings& settings, std::optional<uint8_t> level) {
  VirtualWorld world(1);
  SeededRandom random(5);
  FluidCluster cluster(world.executor(), world.clock(), lost_server(settings, random));
  const Options options{.min_deadline = 1h, .link = {.bytes_per_second = settings.rate}};
  RepairManager manager(world.runtime(), options, cluster, nullptr);
  if (level) cluster.network().set_precision(together_seconds(*level, 0.4), most_full_links(*level));
  manager.start();
  manager.server_dead(kDead, cluster.missing_chunks()[kDead]);
  EXPECT_TRUE(world.run_until([&] { return cluster.commits().size() == settings.lost; }, 10h));
  cluster.stop();
  world.run(manager.stop());
  Schedule schedule;
  for (const FluidCluster::Commit& commit : cluster.commits()) {
    const auto& stripe = cluster.state().stripes[commit.stripe.value - 1];
    uint64_t places = 0;
    for (const auto& chunk : stripe.chunks)
      places = 31 * places + chunk.server.value;
    schedule.emplace_back(commit.began, commit.at, commit.stripe.value, places);
  }
  return schedule;
}

const std::vector<FluidSettings> kInputs{{.servers = 40, .lost = 200},
                                         {.servers = 40, .slow_percent = 20, .lost = 120},
                                         {.servers = 30, .policy = "lrc-12-2-2-1024k", .lost = 60}};

TEST(Knobs, LevelZeroIsTheScheduleOfProduction) {
  bool differs = false;
  for (const FluidSettings& settings : kInputs) {
    const Schedule production = schedule_of(settings, std::nullopt);
    EXPECT_EQ(schedule_of(settings, uint8_t{0}), production);
    differs |= schedule_of(settings, uint8_t{5}) != production;
  }
  EXPECT_TRUE(differs) << "level 5 is the same: this shows nothing";
}

Cluster alike_cluster(uint32_t servers, const char* policy, uint64_t chunks) {
  const erasure::Policy parsed = *erasure::Policy::parse(policy);
  Cluster cluster =
      *described({.servers = servers, .stripes = chunks * servers / parsed.chunks(), .policy = parsed});
  cluster.delay_seconds = 0;
  return cluster;
}

SimulatedLoss lost(const Cluster& cluster, std::vector<uint32_t> servers, std::vector<Levels> phases) {
  return *simulate_servers_lost(cluster, {.servers = std::move(servers), .budget = 0}, {std::move(phases)});
}

TEST(Knobs, AllAtLevelZeroGiveTheExactForecast) {
  const Cluster cluster = alike_cluster(40, "rs-6-3-1024k", 300);
  const SimulatedLoss exact = lost(cluster, {3}, {}), zero = lost(cluster, {3}, std::vector<Levels>(4));
  EXPECT_EQ(zero.all_seconds, exact.all_seconds);
  EXPECT_EQ(zero.progress, exact.progress);
  EXPECT_EQ(zero.work.shares, exact.work.shares);
  const Forecast forecast = *forecast_loss(cluster, {.servers = {3}, .budget = 0});
  EXPECT_DOUBLE_EQ(*forecast.all_seconds, *exact.all_seconds + cluster.detection_seconds);
}

TEST(Knobs, EachBlockSavesItsOwnWork) {
  const Cluster cluster = alike_cluster(40, "rs-6-3-1024k", 600);
  const auto all_phases = [](Block block, uint8_t level) {
    Levels levels{};
    levels[static_cast<size_t>(block)] = level;
    return std::vector<Levels>(4, levels);
  };
  const SimulatedLoss exact = lost(cluster, {3}, {});
  const SimulatedLoss bundled = lost(cluster, {3}, all_phases(Block::kBundle, 2));
  EXPECT_NEAR(static_cast<double>(bundled.work.plans), exact.work.plans / 3.0, 2);
  EXPECT_DOUBLE_EQ(bundled.chunks, exact.chunks);
  EXPECT_NEAR(bundled.bytes, exact.bytes, 1);
  EXPECT_NEAR(*bundled.all_seconds, *exact.all_seconds, 0.15 * *exact.all_seconds);
  for (const Block block : {Block::kRates, Block::kFilling})
    EXPECT_NEAR(*lost(cluster, {3}, all_phases(block, 1)).all_seconds, *exact.all_seconds,
                0.2 * *exact.all_seconds);
}

TEST(Knobs, APhaseAloneLeavesTheOthersAsTheyAre) {
  Cluster cluster = alike_cluster(40, "rs-6-3-1024k", 600);
  for (size_t i = 0; i < cluster.servers.size(); i += 5) {
    cluster.servers[i].up /= 4;
    cluster.servers[i].down /= 4;
  }
  std::vector<Levels> last(4);
  last[3] = {5, 5, 0};
  const SimulatedLoss exact = lost(cluster, {3}, {}), coarse = lost(cluster, {3}, last);
  EXPECT_EQ(coarse.half_seconds, exact.half_seconds) << "only the last quarter was coarse";
  EXPECT_NE(coarse.all_seconds, exact.all_seconds);
}

TEST(Bundles, StandForStripesThatLackAsMuch) {
  const Cluster cluster = alike_cluster(20, "rs-6-3-1024k", 100);
  const SimulatedLoss exact = lost(cluster, {3, 4}, {});
  const SimulatedLoss coarse = lost(cluster, {3, 4}, std::vector<Levels>(2, Levels{0, 0, 3}));
  ASSERT_EQ(coarse.by_spare.size(), exact.by_spare.size());
  for (size_t spare = 0; spare < exact.by_spare.size(); ++spare)
    EXPECT_DOUBLE_EQ(coarse.by_spare[spare].stripes, exact.by_spare[spare].stripes) << spare;
  EXPECT_DOUBLE_EQ(coarse.chunks, exact.chunks);
}

TEST(Bundles, AreMadeOnlyInTheirPhase) {
  FluidSettings settings{.servers = 30, .lost = 100};
  SeededRandom random(1);
  const FluidState state = bundled(lost_server(settings, random), std::vector<uint32_t>{1, 4});
  ASSERT_EQ(state.stripes.size(), 63u) << "50, and 50 in fours";
  EXPECT_EQ(state.repairs_of_stripe[49], 1);
  EXPECT_EQ(state.repairs_of_stripe[50], 4);
  EXPECT_EQ(state.repairs_of_stripe.back(), 2) << "what is left";
}

}  // namespace
}  // namespace kintsugi::what_if

// What a loss of servers is forecast to take: against bounds worked out by hand, against exact simulation, and against the
// simulator that the joint schedule is measured with.
#include "repair_manager/what_if/loss.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "repair_manager/manager/repair_manager.h"
#include "repair_manager/what_if/random_stripes.h"
#include "repair_manager/what_if/simulated_loss.h"
#include "repair_manager/what_if/virtual_world.h"
#include "tests/benchmarks/lost_server.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/what_if/quiet.h"

namespace kintsugi::what_if {
namespace {

constexpr double kChunk = 64 << 20, kRate = 10e9 / 8;

/// A server of it has 1,000 chunks.
Cluster cluster_of(uint32_t servers, const char* policy, uint32_t racks = 0, uint64_t chunks = 1000) {
  const erasure::Policy parsed = *erasure::Policy::parse(policy);
  Cluster cluster = *described({.servers = servers,
                                .racks = racks,
                                .stripes = chunks * servers / parsed.chunks(),
                                .policy = parsed,
                                .chunk_bytes = kChunk,
                                .link_rate = kRate});
  cluster.detection_seconds = 10;
  cluster.delay_seconds = 900;
  return cluster;
}

Forecast exact(const Cluster& cluster, std::vector<uint32_t> servers) {
  const auto forecast = forecast_loss(cluster, {.servers = std::move(servers), .budget = 0});
  EXPECT_TRUE(forecast);
  EXPECT_EQ(forecast->method, Method::kExact);
  return *forecast;
}

TEST(Loss, TakesAsLongAsInTheSimulatorThatMeasuresTheSchedule) {
  for (const FluidSettings& settings :
       {FluidSettings{.lost = 30}, FluidSettings{.servers = 40, .slow_percent = 20, .lost = 60},
        FluidSettings{.servers = 30, .policy = "lrc-12-2-2-1024k", .lost = 20}}) {
    simulation::Simulation simulation(1);
    const FluidState state = lost_server(settings, simulation.random());
    FluidCluster cluster(simulation.executor(), simulation.clock(), state);
    simulation::SimNode node(simulation, "meta");
    const repair_manager::Options options{.min_deadline = 1h, .link = {.bytes_per_second = settings.rate}};
    repair_manager::RepairManager manager(node.runtime(), options, cluster, nullptr);
    const TimePoint began = simulation.now();
    manager.start();
    manager.server_dead(kDead, cluster.missing_chunks()[kDead]);
    ASSERT_TRUE(simulation.run_until([&] { return cluster.commits().size() == settings.lost; }, 1h));
    const double expected = to_seconds(simulation.now() - began);
    simulation.run_for(1s);
    simulation.run(manager.stop());

    const SimulatedLoss loss = simulate_loss(state, options, 3);
    EXPECT_EQ(loss.chunks, settings.lost);
    EXPECT_NEAR(*loss.all_seconds, expected, 1e-6 * expected);
  }
}

TEST(Loss, BeginsAfterDetectionAndDelayAndTakesWhatLinksTake) {
  const Forecast forecast = exact(cluster_of(50, "rs-6-3-1024k"), {7});
  EXPECT_EQ(forecast.chunks, 1000);
  EXPECT_EQ(forecast.stripes, 1000);
  EXPECT_NEAR(forecast.begins_seconds, 910, 1);
  const double bound = 6 * 1000 * kChunk / (49 * kRate);
  EXPECT_GT(repair_seconds(forecast), bound);
  EXPECT_LT(repair_seconds(forecast), 1.2 * bound);
  EXPECT_LT(*forecast.half_seconds, *forecast.most_seconds);
  EXPECT_NEAR(*forecast.half_seconds - forecast.begins_seconds, 0.5 * repair_seconds(forecast),
              0.1 * repair_seconds(forecast));
  ASSERT_FALSE(forecast.busiest.empty());
  EXPECT_GT(forecast.busiest.front().busy, 0.9);
  EXPECT_LE(forecast.busiest.front().busy, 1.0001);
}

TEST(Loss, OneServerIsDeclaredDeadAtTheEndOfItsTimeWhateverTheSeed) {
  Cluster cluster = cluster_of(20, "rs-4-2-1024k", 0, 20);
  cluster.delay_seconds = 0;
  for (const uint64_t seed : {1, 2, 3}) {
    const auto forecast = forecast_loss(cluster, {.servers = {7}, .budget = 0, .seed = seed});
    EXPECT_NEAR(forecast->begins_seconds, 10, 1e-3);
  }
}

TEST(Loss, ServersOfARackAreDeclaredDeadOneAfterAnotherAndRepairsOfTheFirstBeginAtOnce) {
  // Their chunks are rebuilt within a second, and their heartbeats were due within eight.
  Cluster cluster = cluster_of(12, "rs-4-2-1024k", 4, 10);
  cluster.delay_seconds = 0;
  const std::vector<uint32_t> rack{0, 4, 8};
  cluster.heartbeat_seconds = 0;
  const Forecast at_once = exact(cluster, rack);
  EXPECT_NEAR(at_once.begins_seconds, 10, 1e-3);
  EXPECT_LT(repair_seconds(at_once), 1.5);
  cluster.heartbeat_seconds = 8;
  std::set<double> begins;
  double longest = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    const auto forecast = forecast_loss(cluster, {.servers = rack, .budget = 0, .seed = seed});
    ASSERT_TRUE(forecast && forecast->all_seconds);
    EXPECT_GE(forecast->begins_seconds, 4) << "the metaserver looks every two seconds";
    EXPECT_LT(forecast->begins_seconds, 10.1);
    EXPECT_LT(*forecast->all_seconds, 10 + repair_seconds(at_once));
    EXPECT_EQ(forecast->chunks, at_once.chunks);
    EXPECT_EQ(forecast->waiting_chunks, 0);
    longest = std::max(longest, repair_seconds(*forecast));
    const auto again = forecast_loss(cluster, {.servers = rack, .budget = 0, .seed = seed});
    EXPECT_EQ(again->all_seconds, forecast->all_seconds) << "the same each time";
    begins.insert(std::round(forecast->begins_seconds));
  }
  EXPECT_GE(begins.size(), 3u);
  EXPECT_LT(*begins.begin(), 5);
  EXPECT_GT(longest, 3) << "some server is declared dead after the first one's chunks are rebuilt";
}

TEST(Loss, AStripeThatLosesTwoChunksIsInDangerFromTheLossOn) {
  // The second server may be declared dead after the stripe's first chunk is rebuilt: the stripe lacked two all the same.
  Cluster cluster = cluster_of(20, "rs-4-2-1024k", 0, 40);
  cluster.delay_seconds = 0;
  cluster.heartbeat_seconds = 8;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const auto forecast = forecast_loss(cluster, {.servers = {0, 1}, .budget = 0, .seed = seed});
    ASSERT_EQ(forecast->endangered.size(), 2u);
    EXPECT_GT(forecast->endangered[0].stripes, 1);
    EXPECT_GT(*forecast->endangered[0].until_seconds, forecast->begins_seconds) << seed;
    EXPECT_LE(*forecast->endangered[0].until_seconds, *forecast->all_seconds) << seed;
  }
}

TEST(Loss, RebuildsWhatIsInMostDangerFirst) {
  // Racks of 5 servers: stripes have 9 of 10 racks, those of both lost servers lack two chunks and can lose one more.
  const Forecast forecast = exact(cluster_of(50, "rs-6-3-1024k", 10), {0, 1});
  ASSERT_EQ(forecast.endangered.size(), 2u);
  EXPECT_EQ(forecast.endangered[0].spare, 1u);
  EXPECT_EQ(forecast.endangered[1].spare, 2u);
  EXPECT_GT(forecast.endangered[0].stripes, 100);
  EXPECT_DOUBLE_EQ(forecast.chunks, 2 * forecast.endangered[0].stripes + forecast.endangered[1].stripes);
  EXPECT_LT(*forecast.endangered[0].until_seconds, 100) << "they do not wait for repair.delay";
  EXPECT_DOUBLE_EQ(*forecast.endangered[1].until_seconds, *forecast.all_seconds);
}

TEST(Loss, TellsUntilWhenOneMoreLossLosesData) {
  const Forecast forecast = exact(cluster_of(40, "rs-6-3-1024k", 10, 200), {0, 1, 2});
  ASSERT_FALSE(forecast.endangered.empty());
  EXPECT_EQ(forecast.endangered[0].spare, 0u);
  EXPECT_EQ(forecast.lost_stripes, 0);
  EXPECT_LT(*forecast.endangered[0].until_seconds, *forecast.endangered[1].until_seconds);
}

TEST(Loss, CountsStripesThatAreBeyondRepair) {
  // Four of twelve servers: some stripes had four of their nine chunks there.
  const Forecast forecast = exact(cluster_of(14, "rs-6-3-1024k", 0, 200), {0, 1, 2, 3});
  EXPECT_GT(forecast.lost_stripes, 1);
  EXPECT_LT(forecast.lost_stripes, forecast.stripes);
  EXPECT_TRUE(forecast.all_seconds) << "the others are rebuilt";
}

TEST(Loss, WaitsWhereNoServerCanTakeAChunk) {
  const Forecast forecast = exact(cluster_of(9, "rs-6-3-1024k", 0, 50), {3});
  EXPECT_EQ(forecast.waiting_chunks, 50);
  EXPECT_FALSE(forecast.half_seconds);
  EXPECT_FALSE(forecast.endangered.at(0).until_seconds);
}

TEST(Loss, UplinksOfRacksHoldRepairsBack) {
  Cluster cluster = cluster_of(50, "rs-6-3-1024k", 10, 300);
  const Forecast free = exact(cluster, {0});
  cluster.rack_rate = kRate / 2;  // of five servers together
  const Forecast held = exact(cluster, {0});
  // Every sum leaves its rack: stripes have at most one chunk in each.
  const double bound = 6 * 300 * kChunk / (10 * cluster.rack_rate);
  EXPECT_GT(repair_seconds(held), 0.9 * bound);
  EXPECT_GT(repair_seconds(held), 4 * repair_seconds(free));
  EXPECT_TRUE(held.busiest.front().rack);
  EXPECT_EQ(held.busiest.front().name.substr(0, 5), "rack-");
}

TEST(Loss, ACapOnRepairsIsTheirRate) {
  Cluster cluster = cluster_of(40, "rs-6-3-1024k", 0, 300);
  const double free = repair_seconds(exact(cluster, {0}));
  cluster.repair_limit = kRate / 10;
  EXPECT_NEAR(repair_seconds(exact(cluster, {0})), 10 * free, 0.5 * free);
}

TEST(Loss, ASampleOfTheRepairsTellsNearlyWhatAllOfThemTake) {
  struct Case {
    const char* what;
    Cluster cluster;
    std::vector<uint32_t> lost;
    double error;
  };
  std::vector<Case> cases{{"alike", cluster_of(100, "rs-8-4-1024k", 0, 3000), {0}, 0.03},
                          {"slow links", cluster_of(60, "rs-8-4-1024k", 0, 1500), {0}, 0.1},
                          {"two servers", cluster_of(100, "rs-8-4-1024k", 20, 1500), {0, 1}, 0.03}};
  for (size_t i = 3; i < 60; i += 6)
    cases[1].cluster.servers[i].up = cases[1].cluster.servers[i].down = kRate / 4;
  for (const Case& one : cases) {
    SCOPED_TRACE(one.what);
    const Forecast truth = exact(one.cluster, one.lost);
    const auto sample = forecast_loss(one.cluster, {.servers = one.lost, .simulate = 1000});
    ASSERT_TRUE(sample);
    EXPECT_EQ(sample->simulated, 1000u);
    EXPECT_EQ(sample->method, Method::kSampled);
    const double seconds = repair_seconds(truth);
    EXPECT_NEAR(repair_seconds(*sample), seconds, one.error * seconds);
    EXPECT_NEAR(*sample->half_seconds - sample->begins_seconds, *truth.half_seconds - truth.begins_seconds,
                one.error * seconds);
  }
}

TEST(Loss, SimulatesAsManyRepairsAsItsBudgetNeeds) {
  Cluster cluster = cluster_of(100, "rs-8-4-1024k", 0, 20'000);
  const auto even = forecast_loss(cluster, {.servers = {0}, .budget = 0.2});
  EXPECT_EQ(even->method, Method::kSampled);
  EXPECT_LE(even->error, 0.2);
  EXPECT_LT(even->simulated, 20'000u);
  EXPECT_NEAR(even->repairs_each * static_cast<double>(even->simulated), 20'000, 1);
}

TEST(Loss, OfAVeryLargeClusterIsAnsweredByTheClosedForm) {
  const auto forecast =
      forecast_loss(cluster_of(3000, "rs-8-4-1024k", 0, 15'000), {.servers = {0}, .budget = 0.1});
  ASSERT_TRUE(forecast);
  EXPECT_EQ(forecast->method, Method::kClosedForm);
  // The exact simulation, which takes ten seconds of a processor, says so.
  EXPECT_NEAR(repair_seconds(*forecast), 2.582, 0.1 * 2.582);
  EXPECT_NEAR(*forecast->half_seconds - forecast->begins_seconds, 1.172, 0.1 * 2.582);
}

TEST(Loss, OfWeeksOfRepairsIsAnsweredInProportionToOneOfHours) {
  const auto answer = [](uint64_t chunks) {
    const auto forecast =
        forecast_loss(cluster_of(20, "rs-8-4-1024k", 0, chunks), {.servers = {0}, .budget = 0.05});
    EXPECT_TRUE(forecast) << forecast.error();
    return forecast ? *forecast : Forecast{};
  };
  const Forecast hours = answer(60'000), weeks = answer(60'000'000);
  EXPECT_EQ(weeks.method, Method::kSampled);
  EXPECT_LE(weeks.simulated, kMostSimulated);
  EXPECT_EQ(hours.seconds_each, 1);
  EXPECT_GT(weeks.seconds_each, 100) << "what the answer says";
  EXPECT_NEAR(weeks.begins_seconds, hours.begins_seconds, 1);
  EXPECT_NEAR(repair_seconds(weeks) / repair_seconds(hours), 1000, 50);
  EXPECT_NEAR(weeks.bytes / hours.bytes, 1000, 1e-6);
  EXPECT_NEAR(weeks.busiest.front().bytes / hours.busiest.front().bytes, 1000, 50);
  EXPECT_NEAR(weeks.busiest.front().busy, hours.busiest.front().busy, 0.05);
  ASSERT_EQ(weeks.endangered.size(), 1U);
  EXPECT_NEAR(*weeks.endangered.front().until_seconds, *weeks.all_seconds, 1);
}

TEST(Loss, OfAHundredMillionChunksIsAnsweredFromABoundedSampleOrRefused) {
  const Cluster cluster = cluster_of(13, "rs-8-4-1024k", 0, 92'307'692);
  for (const double budget : {0.0, 0.01, 0.05}) {
    const auto forecast = forecast_loss(cluster, {.servers = {0}, .budget = budget});
    if (forecast) {
      EXPECT_LE(forecast->simulated, 20'000U) << budget;
      EXPECT_NEAR(forecast->repairs_each * static_cast<double>(forecast->simulated), forecast->chunks, 1);
      EXPECT_GT(repair_seconds(*forecast), 8 * forecast->bytes / (12 * kRate)) << "what links can carry";
    } else {
      EXPECT_EQ(forecast.error().code(), Code::kLimitExceeded) << budget;
    }
  }
}

TEST(Loss, SmallLossesAreSimulatedAsTheyAre) {
  const auto forecast =
      forecast_loss(cluster_of(50, "rs-6-3-1024k", 0, 100), {.servers = {0}, .budget = 0.05});
  EXPECT_EQ(forecast->method, Method::kExact);
}

TEST(Loss, IsTheSameEachTime) {
  const Cluster cluster = cluster_of(40, "rs-6-3-1024k", 10, 100);
  EXPECT_EQ(exact(cluster, {0, 3}).all_seconds, exact(cluster, {0, 3}).all_seconds);
}

TEST(Loss, RefusesWhatMakesNoSense) {
  const Cluster cluster = cluster_of(20, "rs-6-3-1024k");
  for (const std::vector<uint32_t>& lost : {std::vector<uint32_t>{}, {20}, {1, 1}}) {
    const auto forecast = forecast_loss(cluster, {.servers = lost});
    ASSERT_FALSE(forecast);
    EXPECT_EQ(forecast.error().code(), Code::kInvalidArgument);
  }
  const auto policy = *erasure::Policy::parse("rs-6-3-1024k");
  EXPECT_FALSE(described({.servers = 8, .stripes = 1, .policy = policy}));
  EXPECT_FALSE(described({.servers = 20, .racks = 21, .stripes = 1, .policy = policy}));
  EXPECT_FALSE(described({.servers = 10'001, .stripes = 1, .policy = policy}));
}

TEST(Loss, OfAServerWithoutChunksIsNone) {
  Cluster cluster = cluster_of(20, "rs-6-3-1024k");
  cluster.servers[4].chunks = 0;
  const Forecast forecast = exact(cluster, {4});
  EXPECT_EQ(forecast.chunks, 0);
  EXPECT_FALSE(forecast.all_seconds);
}

TEST(RandomStripes, SpreadOverRacksAndServersAsTheyAreFilled) {
  // Two racks of 4, whose first servers have three times as much.
  std::vector<RandomStripes::Place> places;
  for (uint32_t i = 0; i < 8; ++i)
    places.push_back({.rack = i % 2, .weight = i < 2 ? 3.0 : 1.0});
  SeededRandom random(1);
  RandomStripes draw(places, 4, random);
  std::vector<bool> lost(8, false);
  lost[2] = true;
  std::vector<size_t> held(8);
  for (int i = 0; i < 6000; ++i) {
    const std::vector<uint32_t> stripe = draw.that_loses(lost);
    ASSERT_EQ(stripe.size(), 4u);
    EXPECT_EQ(std::ranges::count_if(stripe, [](uint32_t place) { return place % 2 == 0; }), 2)
        << "two in each rack";
    for (const uint32_t place : stripe)
      ++held[place];
  }
  EXPECT_EQ(held[2], 6000u);
  EXPECT_NEAR(static_cast<double>(held[0]) / 6000, 0.6, 0.03) << "3 of the 5 that its rack has beside";
  EXPECT_GT(held[1], 2 * held[3]);
}

TEST(RandomStripes, StripesThatLoseSeveralChunksAreAsFrequentAsTheyAre) {
  // Of stripes of 3 on 6 servers, 3 * 3 * 1 = 9 lose one of three lost ones, 3 * 3 = 9 two, and 1 all three.
  const std::vector<RandomStripes::Place> places{{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}};
  SeededRandom random(1);
  RandomStripes draw(places, 3, random);
  const std::vector<bool> lost{true, true, true, false, false, false};
  std::vector<double> losses(4);
  for (int i = 0; i < 19'000; ++i)
    losses[static_cast<size_t>(
        std::ranges::count_if(draw.that_loses(lost), [&](uint32_t at) { return lost[at]; }))] += 1;
  EXPECT_NEAR(losses[1], 9000, 300);
  EXPECT_NEAR(losses[2], 9000, 300);
  EXPECT_NEAR(losses[3], 1000, 120);
}

}  // namespace
}  // namespace kintsugi::what_if

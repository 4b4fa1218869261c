#include "repair_manager/joint/joint_schedule.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "tests/simulation/runtime/sim_random.h"

namespace kintsugi::repair_manager {
namespace {

constexpr JointLimits kLimits{.level = 8, .most = 16};

bool anywhere(size_t, uint32_t) {
  return true;
}

std::vector<JointChoice> schedule_of(const std::vector<JointServer>& servers,
                                     const std::vector<JointRepair>& repairs, const JointLimits& limits,
                                     const std::function<bool(size_t, uint32_t)>& may_receive) {
  std::vector<const JointRepair*> pointers;
  for (const JointRepair& repair : repairs)
    pointers.push_back(&repair);
  return schedule_jointly(servers, pointers, limits, may_receive);
}

/// RS(12,4) on random servers; server 0 is the dead one and takes no part.
std::vector<JointRepair> random_repairs(size_t count, uint32_t servers, simulation::SimRandom& random) {
  std::vector<JointRepair> repairs;
  for (size_t i = 0; i < count; ++i) {
    std::vector<uint32_t> holders;
    while (holders.size() < 15) {
      const auto server = static_cast<uint32_t>(random.below(servers));
      if (std::ranges::find(holders, server) == holders.end()) holders.push_back(server);
    }
    repairs.push_back({.candidates = holders, .needed = 12});
  }
  return repairs;
}

/// In parts of chunks.
struct Loads {
  std::vector<uint32_t> up, down;
};

/// Checks that each choice is a repair as it must be, and counts.
Loads loads_of(std::span<const JointChoice> choices, std::span<const JointRepair> repairs, size_t servers) {
  Loads loads{.up = std::vector<uint32_t>(servers), .down = std::vector<uint32_t>(servers)};
  std::set<size_t> seen;
  for (const JointChoice& choice : choices) {
    EXPECT_TRUE(seen.insert(choice.repair).second) << "twice";
    const JointRepair& repair = repairs[choice.repair];
    uint64_t parts = 0;
    for (const JointChain& chain : choice.chains) {
      EXPECT_EQ(chain.helpers.size(), repair.needed);
      EXPECT_EQ(std::set(chain.helpers.begin(), chain.helpers.end()).size(), repair.needed);
      EXPECT_EQ(parts & chain.parts, 0u) << "two chains for one part";
      parts |= chain.parts;
      const auto count = static_cast<uint32_t>(std::popcount(chain.parts));
      for (size_t i = 0; i < chain.helpers.size(); ++i) {
        const uint32_t server = repair.candidates[chain.helpers[i]];
        loads.up[server] += count;
        if (i + 1 < chain.helpers.size()) loads.down[server] += count;
      }
    }
    EXPECT_EQ(parts, (uint64_t{1} << kChunkParts) - 1);
    loads.down[choice.destination] += kChunkParts;
  }
  return loads;
}

TEST(JointSchedule, HelpersAreAsDisjointAsTheHoldersAllow) {
  const std::vector<JointServer> servers(9);
  // Taken one after the other, the first could take what the second needs.
  const std::vector<JointRepair> repairs{{.candidates = {0, 1, 2, 3, 4, 5}, .needed = 3},
                                         {.candidates = {0, 1, 2}, .needed = 3}};
  const auto choices = schedule_of(servers, repairs, kLimits, anywhere);
  ASSERT_EQ(choices.size(), 2u);
  const Loads loads = loads_of(choices, repairs, servers.size());
  EXPECT_EQ(std::ranges::max(loads.up), kChunkParts);
  EXPECT_EQ(std::ranges::max(loads.down), kChunkParts);
}

TEST(JointSchedule, HolderHelpsWithHalfAChunkWhereAWholeOneWouldBeTooMuch) {
  std::vector<JointServer> servers(6);
  for (size_t i = 2; i < servers.size(); ++i)
    servers[i].can_help = false;
  const std::vector<JointRepair> repairs(3, {.candidates = {0, 1}, .needed = 1});
  const auto choices = schedule_of(servers, repairs, kLimits, anywhere);
  ASSERT_EQ(choices.size(), 3u);
  const Loads loads = loads_of(choices, repairs, servers.size());
  EXPECT_EQ(loads.up[0], loads.up[1]);
  EXPECT_EQ(std::ranges::count_if(choices, [](const JointChoice& c) { return c.chains.size() == 1; }), 2)
      << "no more are split than need be";

  JointLimits costly = kLimits;
  costly.split_cost = 1.4;
  for (const JointChoice& choice : schedule_of(servers, repairs, costly, anywhere))
    EXPECT_EQ(choice.chains.size(), 1u) << "3 halves of a chunk would take longer than 2 chunks";
}

TEST(JointSchedule, EveryLinkCarriesAboutTheSame) {
  simulation::SimRandom random(7);
  const std::vector<JointServer> servers(82);
  const std::vector<JointRepair> repairs = random_repairs(100, 82, random);
  const auto choices = schedule_of(servers, repairs, kLimits, anywhere);
  EXPECT_EQ(choices.size(), 100u) << "all of them fit below the highest level";
  const Loads loads = loads_of(choices, repairs, servers.size());
  // 1200 chunks over 82 links: 14.6 each.
  EXPECT_LE(std::ranges::max(loads.up), 31 * kChunkParts / 2);
  EXPECT_LE(std::ranges::max(loads.down), 31 * kChunkParts / 2);
}

TEST(JointSchedule, WhileMoreWaitLinksAreFilledToALevelThatWholeRepairsFillAndNotBeyond) {
  simulation::SimRandom random(8);
  const std::vector<JointServer> servers(82);
  const std::vector<JointRepair> repairs = random_repairs(1000, 82, random);
  const auto choices = schedule_of(servers, repairs, kLimits, anywhere);
  const Loads loads = loads_of(choices, repairs, servers.size());
  // 82 repairs of 12 chunks; 8 a link are 54.7 repairs, which would leave more of it empty.
  const uint32_t level = 12 * kChunkParts;
  EXPECT_EQ(std::ranges::max(loads.up), level);
  const uint32_t total = std::accumulate(loads.up.begin(), loads.up.end(), 0u);
  EXPECT_GE(total, 82 * level * 98 / 100) << "hardly a slot stays empty";
  EXPECT_TRUE(std::ranges::all_of(choices, [](const JointChoice& c) { return c.chains.size() == 1; }))
      << "chunks are split only at the end";
}

TEST(JointSchedule, InASmallClusterDownlinksAreFilledAsEvenlyAsUplinks) {
  simulation::SimRandom random(7);
  const std::vector<JointServer> servers(20);
  const std::vector<JointRepair> repairs = random_repairs(50, 20, random);
  const auto holds_none = [&](size_t repair, uint32_t server) {
    return std::ranges::find(repairs[repair].candidates, server) == repairs[repair].candidates.end();
  };
  const auto choices = schedule_of(servers, repairs, kLimits, holds_none);
  const Loads loads = loads_of(choices, repairs, servers.size());
  EXPECT_EQ(choices.size(), 15u);
  EXPECT_EQ(std::ranges::max(loads.up), 9 * kChunkParts);
  EXPECT_EQ(std::ranges::max(loads.down), 9 * kChunkParts);
}

TEST(JointSchedule, WhatRunsAlreadyCounts) {
  std::vector<JointServer> servers(6);
  for (uint32_t busy : {0u, 1u, 2u})
    servers[busy].helping = servers[busy].receiving = 5 * kChunkParts;
  const std::vector<JointRepair> repairs{{.candidates = {0, 1, 2, 3, 4}, .needed = 2}};
  const auto no_helper = [](size_t, uint32_t server) { return server < 3 || server == 5; };
  const auto choices = schedule_of(servers, repairs, kLimits, no_helper);
  ASSERT_EQ(choices.size(), 1u);
  ASSERT_EQ(choices[0].chains.size(), 1u);
  EXPECT_EQ(std::set(choices[0].chains[0].helpers.begin(), choices[0].chains[0].helpers.end()),
            (std::set<uint32_t>{3, 4}));
  EXPECT_EQ(choices[0].destination, 5u);
}

TEST(JointSchedule, SlowLinksCarryLess) {
  simulation::SimRandom random(9);
  std::vector<JointServer> servers(40);
  for (size_t i = 0; i < 10; ++i)
    servers[i].rate = 0.25;
  const std::vector<JointRepair> repairs = random_repairs(200, 40, random);
  const auto choices = schedule_of(servers, repairs, kLimits, anywhere);
  ASSERT_GT(choices.size(), 5u);
  const Loads loads = loads_of(choices, repairs, servers.size());
  for (size_t i = 0; i < 10; ++i)
    EXPECT_LE(loads.up[i], kLimits.most * 3 / 4 * kChunkParts / 4);
}

TEST(JointSchedule, DeadServersTakeNoPart) {
  std::vector<JointServer> servers(6);
  servers[1].can_help = servers[1].can_receive = false;
  servers[5].can_receive = false;
  const std::vector<JointRepair> repairs{{.candidates = {0, 1, 2}, .needed = 2},
                                         {.candidates = {0, 1}, .needed = 2}};
  const auto forbidden = [](size_t, uint32_t server) { return server > 2; };
  const auto choices = schedule_of(servers, repairs, kLimits, forbidden);
  ASSERT_EQ(choices.size(), 1u) << "the second one has too few helpers";
  EXPECT_EQ(choices[0].repair, 0u);
  EXPECT_TRUE(choices[0].destination == 3 || choices[0].destination == 4);
}

TEST(JointSchedule, WithoutADestinationNothingBegins) {
  const std::vector<JointServer> servers(4);
  const std::vector<JointRepair> repairs{{.candidates = {0, 1, 2}, .needed = 2}};
  EXPECT_TRUE(schedule_of(servers, repairs, kLimits, [](size_t, uint32_t) { return false; }).empty());
  EXPECT_TRUE(schedule_of({}, repairs, kLimits, anywhere).empty());
  EXPECT_TRUE(schedule_of(servers, {}, kLimits, anywhere).empty());
}

TEST(JointSchedule, TheSameInputGivesTheSameSchedule) {
  simulation::SimRandom random(10);
  const std::vector<JointServer> servers(30);
  const std::vector<JointRepair> repairs = random_repairs(50, 30, random);
  const auto a = schedule_of(servers, repairs, kLimits, anywhere);
  const auto b = schedule_of(servers, repairs, kLimits, anywhere);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].chains.size(), b[i].chains.size());
    for (size_t c = 0; c < a[i].chains.size(); ++c)
      EXPECT_EQ(a[i].chains[c].helpers, b[i].chains[c].helpers);
    EXPECT_EQ(a[i].destination, b[i].destination);
  }
}

}  // namespace
}  // namespace kintsugi::repair_manager

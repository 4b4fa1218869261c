#include "metaserver/cluster/placement.h"

#include <map>
#include <set>

#include <gtest/gtest.h>

#include "tests/simulation/runtime/sim_random.h"

namespace kintsugi::metaserver {
namespace {

std::vector<Candidate> servers(const std::vector<int>& of_rack, uint64_t free_bytes = 1ull << 40) {
  std::vector<Candidate> all;
  for (size_t rack = 0; rack < of_rack.size(); ++rack) {
    for (int i = 0; i < of_rack[rack]; ++i)
      all.push_back({ServerId{1 + all.size()}, "r" + std::to_string(rack), free_bytes});
  }
  return all;
}

std::map<std::string, size_t> by_rack(const std::vector<Candidate>& all,
                                      const std::vector<ServerId>& chosen) {
  std::map<std::string, size_t> counts;
  for (ServerId id : chosen)
    ++counts[all[id.value - 1].rack];
  return counts;
}

TEST(Placement, SpreadsOverRacksAsEvenlyAsTheServersAllow) {
  simulation::SimRandom random(3);
  for (const std::vector<int>& racks :
       std::vector<std::vector<int>>{{3, 3, 3}, {10, 10, 10, 10}, {9}, {1, 20}, {2, 2, 2, 2, 2}, {4, 1, 9}}) {
    const std::vector<Candidate> all = servers(racks);
    for (int round = 0; round < 50; ++round) {
      const std::vector<ServerId> chosen = choose_servers(9, all, {}, random);
      ASSERT_EQ(chosen.size(), 9u);
      ASSERT_EQ(std::set<ServerId>(chosen.begin(), chosen.end()).size(), 9u);
      const auto counts = by_rack(all, chosen);
      // No rack holds two more than another that has servers left.
      for (size_t a = 0; a < racks.size(); ++a) {
        for (size_t b = 0; b < racks.size(); ++b) {
          const auto count = [&](size_t rack) {
            auto found = counts.find("r" + std::to_string(rack));
            return found == counts.end() ? size_t{0} : found->second;
          };
          if (count(b) < static_cast<size_t>(racks[b])) {
            ASSERT_LE(count(a), count(b) + 1);
          }
        }
      }
    }
  }
}

TEST(Placement, SurvivesTheLossOfARackWhenThereAreRacksEnough) {
  simulation::SimRandom random(4);
  const std::vector<Candidate> all = servers({5, 5, 5});
  for (const auto& [rack, count] : by_rack(all, choose_servers(9, all, {}, random)))
    EXPECT_LE(count, 3u) << rack;
}

TEST(Placement, PrefersServersWithMoreRoom) {
  simulation::SimRandom random(5);
  std::vector<Candidate> all = servers({20}, 100ull << 30);
  all[0].free_bytes = 900ull << 30;
  all[1].free_bytes = 0;
  int first = 0, second = 0;
  for (int round = 0; round < 2000; ++round) {
    for (ServerId id : choose_servers(2, all, {}, random)) {
      first += id.value == 1;
      second += id.value == 2;
    }
  }
  EXPECT_NEAR(first, 1150, 200);
  EXPECT_LT(second, 10);
}

TEST(Placement, AReplacementGoesWhereTheStripeHasFewest) {
  simulation::SimRandom random(6);
  const std::vector<Candidate> all = servers({4, 4, 4});
  const std::vector<Candidate> taken{all[0], all[1], all[4], all[5], all[8]};
  for (int round = 0; round < 50; ++round) {
    const std::vector<ServerId> chosen = choose_servers(1, all, taken, random);
    ASSERT_EQ(chosen.size(), 1u);
    EXPECT_EQ(all[chosen[0].value - 1].rack, "r2");
    EXPECT_NE(chosen[0], all[8].id);
  }
}

TEST(Placement, SaysWhatIsMissing) {
  simulation::SimRandom random(7);
  EXPECT_TRUE(choose_servers(9, servers({4, 4}), {}, random).empty());
  const erasure::Policy policy{6, 3, 1 << 20};
  UsableServers usable{.servers = servers({3}), .alive = 3};
  EXPECT_EQ(too_few_servers(policy, policy, usable),
            (Status{Code::kUnavailable, "policy rs-6-3-1024k needs 9 servers; 3 are alive"}));
  usable = {.servers = servers({3}), .alive = 10, .full = 7, .needed_bytes = 64 << 20};
  EXPECT_EQ(
      too_few_servers(policy, policy, usable),
      (Status{Code::kNoSpace,
              "policy rs-6-3-1024k needs 9 servers; 10 are alive, of which 7 have less than 64 MiB free"}));
  usable = {.servers = servers({3}), .alive = 6, .draining = 2, .excluded = 1};
  EXPECT_EQ(too_few_servers(policy, policy, usable).message(),
            "policy rs-6-3-1024k needs 9 servers; 6 are alive, of which 2 are being drained, 1 failed for "
            "this client "
            "lately");
}

TEST(Placement, GoesAroundSlowServersWhileThereAreEnoughOthers) {
  simulation::SimRandom random(7);
  std::vector<Candidate> all = servers(std::vector<int>(11, 1));
  all[2].slow = all[8].slow = true;
  for (int round = 0; round < 50; ++round)
    for (ServerId id : choose_servers(9, all, {}, random))
      ASSERT_FALSE(all[id.value - 1].slow);
  all[0].slow = true;  // eight others are too few
  int slow = 0;
  for (ServerId id : choose_servers(9, all, {}, random))
    slow += all[id.value - 1].slow;
  EXPECT_EQ(slow, 1) << "no more of them than needed";
  for (Candidate& server : all)
    server.slow = true;
  EXPECT_EQ(choose_servers(9, all, {}, random).size(), 9u) << "it is a preference only";
}

TEST(Placement, TakesASlowServerRatherThanCrowdingARack) {
  simulation::SimRandom random(8);
  std::vector<Candidate> all = servers({3, 3, 3, 3});
  for (size_t i = 0; i < 3; ++i)
    all[i].slow = true;  // a whole rack
  for (int round = 0; round < 50; ++round) {
    const auto nine = by_rack(all, choose_servers(9, all, {}, random));
    EXPECT_FALSE(nine.contains("r0")) << "three racks of three are as even";
    // Without the slow rack, ten chunks are four in one; with it three at most.
    for (const auto& [rack, count] : by_rack(all, choose_servers(10, all, {}, random)))
      EXPECT_LE(count, 3u) << rack;
  }
}

}  // namespace
}  // namespace kintsugi::metaserver

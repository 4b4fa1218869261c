#include "repair_manager/trees/weighted_tree.h"

#include <bit>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "repair_manager/trees/slice_shares.h"
#include "repair_manager/trees/tree_choice.h"

namespace kintsugi::repair_manager {
namespace {

constexpr uint64_t kSlices = 64;

void collect(std::span<const TreeNode> tree, std::vector<size_t>& helpers) {
  for (const TreeNode& node : tree) {
    helpers.push_back(node.helper);
    collect(node.children, helpers);
  }
}

/// Every slice is carried by exactly one tree of `needed` different helpers.
void check_slices(const TreeSet& set, size_t needed, size_t helpers) {
  uint64_t covered = 0;
  ASSERT_LE(set.period, kMaxSlicePeriod);
  ASSERT_LE(set.trees.size(), kMaxTrees);
  for (const SliceTree& tree : set.trees) {
    std::vector<size_t> members;
    collect(tree.children, members);
    EXPECT_EQ(members.size(), needed);
    EXPECT_EQ(std::set<size_t>(members.begin(), members.end()).size(), needed);
    for (size_t helper : members)
      EXPECT_LT(helper, helpers);
    EXPECT_EQ(covered & tree.slice_mask, 0u) << "a slice of two trees";
    covered |= tree.slice_mask;
  }
  if (set.period == 0) {
    EXPECT_EQ(set.trees.size(), 1u);
  } else {
    EXPECT_EQ(std::popcount(covered), static_cast<int>(set.period)) << "a slice of no tree";
    if (set.period < 64) {
      EXPECT_EQ(covered >> set.period, 0u);
    }
  }
}

/// The best rate of one tree over all sets of `needed` helpers and all trees of them. Node 0 is the root.
double best_single_tree(const std::vector<LinkRate>& helpers, size_t needed, double root_down) {
  double best = 0;
  for (uint32_t set = 0; set < 1u << helpers.size(); ++set) {
    if (static_cast<size_t>(std::popcount(set)) != needed) continue;
    std::vector<LinkRate> nodes{{1e300, root_down}};
    for (size_t h = 0; h < helpers.size(); ++h)
      if (set >> h & 1) nodes.push_back(helpers[h]);
    std::vector<size_t> parent(nodes.size());
    const auto try_parents = [&](auto&& self, size_t node) -> void {
      if (node == nodes.size()) {
        std::vector<double> children(nodes.size());
        for (size_t i = 1; i < nodes.size(); ++i) {
          size_t up = i;
          for (size_t steps = 0; up != 0 && steps <= nodes.size(); ++steps)
            up = parent[up];
          if (up != 0) return;  // a cycle
          ++children[parent[i]];
        }
        double rate = 1e300;
        for (size_t i = 0; i < nodes.size(); ++i) {
          if (i > 0) rate = std::min(rate, nodes[i].up);
          if (children[i] > 0) rate = std::min(rate, nodes[i].down / children[i]);
        }
        best = std::max(best, rate);
        return;
      }
      for (parent[node] = 0; parent[node] < nodes.size(); ++parent[node])
        if (parent[node] != node) self(self, node + 1);
    };
    try_parents(try_parents, 1);
  }
  return best;
}

/// Returns the load of each helper's downlink at the trees' rate, and last that of the root's.
std::vector<double> downlinks(const TreeSet& set, const std::vector<LinkRate>& helpers, double root_down) {
  std::vector<double> carried(helpers.size() + 1);
  const double rate = bottleneck_rate(set, helpers, root_down);
  const auto add = [&](auto&& self, std::span<const TreeNode> children, size_t node, double share) -> void {
    carried[node] += share * rate * double(children.size());
    for (const TreeNode& child : children)
      self(self, child.children, child.helper, share);
  };
  for (const SliceTree& tree : set.trees)
    add(add, tree.children, helpers.size(), set.share(tree));
  return carried;
}

TEST(WeightedTree, EqualLinksGiveOneChainThatKeepsTheOrderOfPreference) {
  for (size_t needed : {1u, 6u, 12u}) {
    const std::vector<LinkRate> helpers(needed + 3, {100, 100});
    const TreeSet set = plan_weighted(helpers, needed, 100, kSlices);
    check_slices(set, needed, helpers.size());
    EXPECT_EQ(set.period, 0u);
    EXPECT_EQ(depth(set.trees[0].children), needed);
    std::vector<size_t> order;
    collect(set.trees[0].children, order);
    for (size_t i = 0; i < needed; ++i)
      EXPECT_EQ(order[i], i);
  }
}

TEST(WeightedTree, SlowServersAreLeftOutWhenOthersSuffice) {
  std::vector<LinkRate> helpers(9, {100, 100});
  helpers[0] = helpers[4] = helpers[5] = {25, 25};
  const TreeSet set = plan_weighted(helpers, 6, 100, kSlices);
  check_slices(set, 6, 9);
  std::vector<size_t> members;
  for (const SliceTree& tree : set.trees)
    collect(tree.children, members);
  for (size_t slow : {0u, 4u, 5u})
    EXPECT_EQ(std::count(members.begin(), members.end(), slow), 0) << slow;
  EXPECT_DOUBLE_EQ(bottleneck_rate(set, helpers, 100), 100);
}

TEST(WeightedTree, SlowServersShareTheSlicesWhenTheFastOnesDoNotSuffice) {
  // Eleven fast ones and four at a quarter of the rate: each of those carries every fourth slice.
  std::vector<LinkRate> helpers(15, {100, 100});
  for (size_t h : {1u, 5u, 9u, 13u})
    helpers[h] = {25, 25};
  const TreeSet set = plan_weighted(helpers, 12, 100, kSlices);
  check_slices(set, 12, 15);
  EXPECT_EQ(set.period, 4u);
  EXPECT_EQ(set.trees.size(), 4u);
  EXPECT_DOUBLE_EQ(bottleneck_rate(set, helpers, 100), 100) << "as if nobody were slow";
  EXPECT_DOUBLE_EQ(bottleneck_bound(helpers, 12, 100), 100);
}

TEST(WeightedTree, SlicesOfTheTreesAlternate) {
  // Slices are awaited in order: two in a row of a helper at half the rate would halt all others.
  const std::vector<LinkRate> helpers{{100, 100}, {50, 50}, {25, 25}, {25, 25}};
  const TreeSet set = plan_weighted(helpers, 2, 100, kSlices);
  check_slices(set, 2, 4);
  ASSERT_EQ(set.period, 4u);
  ASSERT_EQ(set.trees.size(), 3u);
  for (const SliceTree& tree : set.trees) {
    const uint64_t next = tree.slice_mask << 1 | tree.slice_mask >> 3;
    EXPECT_EQ(tree.slice_mask & next, 0u);
  }
}

TEST(WeightedTree, ReceivingIsSpreadOverAllThatHaveTheDownlinkForIt) {
  // Three fast ones and five at a quarter, all sending all the time. Each of the three and the root could
  // receive two sums of every slice, which is 5/6 of their links; a stall is never made up for then. On
  // average it is 3/2. Once as the links are said to be, once as they were measured.
  const std::vector<LinkRate> exact{{25, 25}, {25, 25},   {100, 100}, {25, 25},
                                    {25, 25}, {100, 100}, {25, 25},   {100, 100}};
  const std::vector<LinkRate> measured{{24.9, 25.1},  {25, 24.8},   {99.3, 97.1},   {24.95, 24.96},
                                       {24.93, 24.8}, {97.2, 99.6}, {25.04, 25.03}, {99.9, 100}};
  for (const auto& helpers : {exact, measured}) {
    const TreeSet set = plan_weighted(helpers, 6, 100, kSlices);
    check_slices(set, 6, 8);
    EXPECT_GE(bottleneck_rate(set, helpers, 100), 0.98 * bottleneck_bound(helpers, 6, 100));
    const std::vector<double> carried = downlinks(set, helpers, 100);
    for (size_t node = 0; node < carried.size(); ++node) {
      const double down = node < helpers.size() ? helpers[node].down : 100;
      EXPECT_LE(carried[node], 0.70 * down) << node;
      if (down < 50) {
        EXPECT_EQ(carried[node], 0) << node << " sends all the time";
      }
    }
  }
}

TEST(WeightedTree, ATreeStaysFlatWhileDownlinksHaveTime) {
  const std::vector<LinkRate> helpers(6, {50, 400});
  const TreeSet set = plan_weighted(helpers, 6, 400, kSlices);
  EXPECT_DOUBLE_EQ(bottleneck_rate(set, helpers, 400), 50);
  EXPECT_LE(depth(set.trees[0].children), 2u);
}

TEST(WeightedTree, TreesOfTheSameServersDifferInWhoReceives) {
  // Five can receive 0.6 of a sum each; no tree of whole sums comes near what they do together.
  std::vector<LinkRate> helpers(6, {100, 60});
  helpers[0].down = 200;
  const TreeSet set = plan_weighted(helpers, 5, 100, kSlices);
  check_slices(set, 5, 6);
  EXPECT_GT(set.trees.size(), 1u);
  EXPECT_GE(bottleneck_rate(set, helpers, 100), 0.97 * bottleneck_bound(helpers, 5, 100));
}

TEST(WeightedTree, ServersThatReceiveSlowlyAreLeaves) {
  // Two that can hardly receive hang onto one that receives twice as fast.
  const std::vector<LinkRate> helpers{{100, 1}, {100, 210}, {100, 1}, {100, 110}};
  const TreeSet set = plan_weighted(helpers, 4, 100, kSlices);
  check_slices(set, 4, 4);
  EXPECT_DOUBLE_EQ(bottleneck_rate(set, helpers, 100), 100);
  EXPECT_EQ(max_fan_in(set.trees[0].children), 2u);
}

TEST(WeightedTree, AFastRepairSiteReceivesFromSeveral) {
  const std::vector<LinkRate> helpers(6, {100, 50});
  const TreeSet set = plan_weighted(helpers, 6, 1000, kSlices);
  EXPECT_DOUBLE_EQ(bottleneck_rate(set, helpers, 1000), 100);
}

TEST(WeightedTree, NoTreeBeatsTheBoundAndThePlanIsAsGoodAsTheBestTree) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> rate(1, 12);
  for (int round = 0; round < 300; ++round) {
    const size_t count = 2 + random() % 4;
    const size_t needed = 1 + random() % std::min<size_t>(count, 4);
    std::vector<LinkRate> helpers;
    for (size_t h = 0; h < count; ++h)
      helpers.push_back({double(rate(random)), double(rate(random))});
    const double root = rate(random);
    const double bound = bottleneck_bound(helpers, needed, root);
    const double best = best_single_tree(helpers, needed, root);
    EXPECT_LE(best, bound * (1 + 1e-6));
    const TreeSet set = plan_weighted(helpers, needed, root, kSlices);
    check_slices(set, needed, count);
    const double planned = bottleneck_rate(set, helpers, root);
    EXPECT_LE(planned, bound * (1 + 1e-6));
    EXPECT_GE(planned, best * kNearEnough * 0.999) << "round " << round;
  }
}

TEST(WeightedTree, WithLinksThatAreAlikeBothWaysThePlanIsNearTheBound) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    const size_t needed = 2 + random() % 11;
    const size_t count = needed + random() % 5;
    std::vector<LinkRate> helpers;
    for (size_t h = 0; h < count; ++h) {
      const double rate = std::vector<double>{25, 50, 80, 100, 100, 100}[random() % 6];
      helpers.push_back({rate, rate});
    }
    const TreeSet set = plan_weighted(helpers, needed, 100, kSlices);
    check_slices(set, needed, count);
    const double bound = bottleneck_bound(helpers, needed, 100);
    EXPECT_GE(bottleneck_rate(set, helpers, 100) * 1.15, bound)
        << "round " << round << ": " << needed << " of " << count;
  }
}

TEST(WeightedTree, WhereSendingAndReceivingDifferMostPlansAreNearTheBound) {
  // The bound lets any server receive any part; trees that are at most kMaxTrees cannot always.
  std::mt19937 random(11);
  constexpr int kRounds = 2000;
  int near = 0;
  for (int round = 0; round < kRounds; ++round) {
    const size_t needed = 2 + random() % 11;
    std::vector<LinkRate> helpers(needed + random() % 5);
    for (LinkRate& link : helpers)
      link = {double(10 + random() % 91), double(10 + random() % 91)};
    const TreeSet set = plan_weighted(helpers, needed, 100, 2 * kSlices);
    check_slices(set, needed, helpers.size());
    const double rate = bottleneck_rate(set, helpers, 100), bound = bottleneck_bound(helpers, needed, 100);
    EXPECT_LE(rate, bound * (1 + 1e-6));
    near += rate * 1.15 >= bound;
  }
  EXPECT_GE(near, kRounds * 93 / 100);
}

TEST(WeightedTree, SharesAreLaidOutSoThatEverySliceHasThatManyHelpers) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    const size_t needed = 1 + random() % 12;
    std::vector<LinkRate> helpers(needed + random() % 5);
    for (LinkRate& link : helpers)
      link = {1.0 + double(random() % 100), 100};
    const SliceShares shares = share_slices(helpers, needed, 1.0 + double(random() % 100), kSlices);
    uint64_t covered = 0;
    for (const SliceShares::Group& group : shares.groups) {
      EXPECT_EQ(std::popcount(group.helpers), static_cast<int>(needed));
      EXPECT_EQ(covered & group.slice_mask, 0u);
      covered |= group.slice_mask;
    }
    EXPECT_EQ(std::popcount(covered), static_cast<int>(shares.period));
    for (size_t h = 0; h < helpers.size(); ++h)
      EXPECT_LE(shares.share(h) * shares.rate, helpers[h].up * (1 + 1e-6));
  }
}

TEST(TreeChoice, AutoAvoidsSlowLinksAndEqualOnesStayAChain) {
  std::vector<LinkRate> helpers(15, {100e6, 100e6});
  const LinkModel link{.bytes_per_second = 100e6};
  const TreeQuestion question{
      .helpers = helpers, .needed = 12, .root_down = 100e6, .load = {.sum_bytes = 64 << 20}};
  EXPECT_EQ(choose_trees(question, link).choice.shape, Shape::CHAIN);
  for (size_t h : {0u, 2u, 4u, 6u})
    helpers[h] = {25e6, 25e6};
  const TreeChoice choice = choose_trees(question, link);
  EXPECT_EQ(choice.choice.shape, Shape::WEIGHTED);
  EXPECT_LE(choice.choice.seconds, 1.15 * (64 << 20) / bottleneck_bound(helpers, 12, 100e6));
}

}  // namespace
}  // namespace kintsugi::repair_manager

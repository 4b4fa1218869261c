#include "repair_manager/trees/tree_plan.h"

#include <bit>
#include <map>

#include <gtest/gtest.h>

#include "common/proto/names.h"
#include "repair_manager/trees/cost_model.h"

namespace kintsugi::repair_manager {
namespace {

constexpr size_t kMaxHelpers = 28;

uint32_t ceil_log2(size_t n) {
  return static_cast<uint32_t>(std::bit_width(n - 1));
}

void count_helpers(std::span<const TreeNode> tree, std::map<size_t, int>& seen) {
  for (const TreeNode& node : tree) {
    ++seen[node.helper];
    count_helpers(node.children, seen);
  }
}

TEST(TreePlan, EveryShapeHasEveryHelperExactlyOnce) {
  for (Shape shape : {Shape::STAR, Shape::STAGGERED, Shape::PPR, Shape::CHAIN}) {
    for (size_t k = 1; k <= kMaxHelpers; ++k) {
      std::map<size_t, int> seen;
      count_helpers(plan_tree(k, shape), seen);
      ASSERT_EQ(seen.size(), k) << shape_name(shape);
      for (const auto& [helper, times] : seen) {
        EXPECT_LT(helper, k);
        EXPECT_EQ(times, 1);
      }
    }
  }
}

TEST(TreePlan, PprNeedsLog2TimestepsAndNoNodeReceivesMoreSumsThanThat) {
  for (size_t k = 1; k <= kMaxHelpers; ++k) {
    const auto tree = plan_tree(k, Shape::PPR);
    EXPECT_EQ(timesteps(tree), ceil_log2(k + 1)) << k;
    EXPECT_LE(max_fan_in(tree), ceil_log2(k + 1)) << k;
    EXPECT_EQ(ppr_timesteps(static_cast<uint32_t>(k)), ceil_log2(k + 1)) << k;
  }
}

TEST(TreePlan, StarAndChainNeedOneTimestepForEachHelper) {
  for (size_t k = 1; k <= kMaxHelpers; ++k) {
    EXPECT_EQ(timesteps(plan_tree(k, Shape::STAR)), k);
    EXPECT_EQ(max_fan_in(plan_tree(k, Shape::STAR)), k);
    EXPECT_EQ(depth(plan_tree(k, Shape::STAR)), 1u);
    EXPECT_EQ(timesteps(plan_tree(k, Shape::CHAIN)), k);
    EXPECT_EQ(max_fan_in(plan_tree(k, Shape::CHAIN)), 1u);
    EXPECT_EQ(depth(plan_tree(k, Shape::CHAIN)), k);
  }
}

void expect_leaves_first(std::span<const TreeNode> children) {
  uint32_t previous = 0;
  for (const TreeNode& child : children) {
    EXPECT_GE(timesteps(child.children), previous);
    previous = timesteps(child.children);
    expect_leaves_first(child.children);
  }
}

TEST(TreePlan, ChildrenAreAwaitedInTheOrderInWhichTheyComplete) {
  for (size_t k = 1; k <= kMaxHelpers; ++k)
    expect_leaves_first(plan_tree(k, Shape::PPR));
}

void collect_fan_in(std::span<const TreeNode> tree, std::vector<size_t>& fan_in) {
  for (const TreeNode& node : tree) {
    fan_in[node.helper] = node.children.size();
    collect_fan_in(node.children, fan_in);
  }
}

TEST(TreePlan, TheLeastBusyHelpersAggregate) {
  for (size_t k = 1; k <= kMaxHelpers; ++k) {
    std::vector<size_t> fan_in(k);
    collect_fan_in(plan_tree(k, Shape::PPR), fan_in);
    EXPECT_TRUE(std::is_sorted(fan_in.rbegin(), fan_in.rend())) << k;
  }
}

TEST(TreePlan, ShapeNamesRoundTripAndOthersAreRefused) {
  for (Shape shape : {Shape::STAR, Shape::STAGGERED, Shape::PPR, Shape::CHAIN, Shape::WEIGHTED, Shape::AUTO})
    EXPECT_EQ(*proto::parse_shape(shape_name(shape)), shape);
  EXPECT_EQ(*proto::parse_shape(""), Shape::AUTO);
  EXPECT_EQ(proto::parse_shape("tree").error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kintsugi::repair_manager

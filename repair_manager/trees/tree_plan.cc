#include "repair_manager/trees/tree_plan.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "common/base/assert.h"

namespace kintsugi::repair_manager {
namespace {

/// Returns who sends to a participant in a binomial reduction. Participants are 0..count-1, and 0 is the repair site:
/// in step t every participant whose lowest set bit is t sends to the one without that bit.
std::vector<size_t> binomial_children(size_t participant, size_t count) {
  std::vector<size_t> children;
  for (size_t step = 1; participant + step < count; step *= 2) {
    if (participant & step) break;
    children.push_back(participant + step);
  }
  return children;
}

TreeNode binomial_node(size_t participant, size_t count, const std::vector<size_t>& helper_of) {
  TreeNode node{.helper = helper_of[participant]};
  for (size_t child : binomial_children(participant, count))
    node.children.push_back(binomial_node(child, count, helper_of));
  return node;
}

std::vector<TreeNode> binomial_tree(size_t helpers) {
  const size_t count = helpers + 1;
  std::vector<size_t> places(helpers);
  std::iota(places.begin(), places.end(), 1);
  std::stable_sort(places.begin(), places.end(), [count](size_t a, size_t b) {
    return binomial_children(a, count).size() > binomial_children(b, count).size();
  });
  std::vector<size_t> helper_of(count);
  for (size_t i = 0; i < helpers; ++i)
    helper_of[places[i]] = i;
  std::vector<TreeNode> children = binomial_node(0, count, helper_of).children;
  order_children(children);
  return children;
}

}  // namespace

std::vector<TreeNode> plan_tree(size_t helpers, Shape shape) {
  KINTSUGI_ASSERT(shape != Shape::AUTO && shape != Shape::WEIGHTED);
  if (shape == Shape::PPR) return binomial_tree(helpers);
  std::vector<TreeNode> children;
  if (shape != Shape::CHAIN) {
    for (size_t i = 0; i < helpers; ++i)
      children.push_back({.helper = i});
    return children;
  }
  for (size_t i = helpers; i-- > 0;) {
    TreeNode node{.helper = i, .children = std::move(children)};
    children.clear();
    children.push_back(std::move(node));
  }
  return children;
}

uint32_t timesteps(std::span<const TreeNode> children_of_root) {
  uint32_t now = 0;
  for (const TreeNode& child : children_of_root)
    now = std::max(now, timesteps(child.children)) + 1;
  return now;
}

uint32_t max_fan_in(std::span<const TreeNode> children_of_root) {
  auto most = static_cast<uint32_t>(children_of_root.size());
  for (const TreeNode& child : children_of_root)
    most = std::max(most, max_fan_in(child.children));
  return most;
}

uint32_t depth(std::span<const TreeNode> children_of_root) {
  uint32_t deepest = 0;
  for (const TreeNode& child : children_of_root)
    deepest = std::max(deepest, depth(child.children) + 1);
  return deepest;
}

void order_children(std::vector<TreeNode>& children) {
  for (TreeNode& child : children)
    order_children(child.children);
  if (children.size() < 2) return;
  // The last subtree may be cut short and complete before others. A stable sort in place, since children are few and
  // this must not allocate.
  const auto sooner = [](const TreeNode& a, const TreeNode& b) {
    return timesteps(a.children) < timesteps(b.children);
  };
  for (auto next = children.begin() + 1; next != children.end(); ++next)
    std::rotate(std::upper_bound(children.begin(), next, *next, sooner), next, next + 1);
}

TreeSet TreeSet::one(std::vector<TreeNode> children) {
  TreeSet set;
  set.trees.push_back({.children = std::move(children)});
  return set;
}

double TreeSet::share(const SliceTree& tree) const {
  return period == 0 ? 1 : static_cast<double>(std::popcount(tree.slice_mask)) / period;
}

}  // namespace kintsugi::repair_manager

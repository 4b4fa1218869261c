/// Shapes of a repair: which helper sends its partial sum to whom. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace kintsugi::repair_manager {

enum class Shape {
  kStar,       ///< every helper sends to the repair site at once: the traditional repair
  kStaggered,  ///< every helper sends to the repair site, one after the other (W section 4.4.2)
  kPpr,        ///< binomial reduction tree: ceil(log2(k+1)) timesteps (W theorem 4.4.1)
  kChain,      ///< a path through all helpers: repair pipelining
  kWeighted,   ///< trees that suit the servers' links (weighted_tree.h)
  kAuto,       ///< whichever the cost model finds cheapest
};

/// "star", "staggered", "ppr", "chain", "weighted", "auto".
std::string_view shape_name(Shape shape);
/// The inverse; "" is auto. kInvalidArgument otherwise.
Result<Shape> parse_shape(std::string_view name);

/// A helper and what hangs below it. `helper` is its position in the list of helpers, best first.
struct TreeNode {
  size_t helper = 0;
  std::vector<TreeNode> children;  ///< in the order in which their sums are complete: leaves first
};

/// The children of the repair site for `helpers` helpers. The first helpers get the places with the most
/// children, since they are the least busy. `shape` must not be kAuto or kWeighted.
std::vector<TreeNode> plan_tree(size_t helpers, Shape shape);

/// Logical timesteps of an unsliced repair: in each, a server sends one sum or receives one.
uint32_t timesteps(std::span<const TreeNode> children_of_root);
/// The most sums that any participant receives, the repair site included.
uint32_t max_fan_in(std::span<const TreeNode> children_of_root);
/// Hops from the farthest leaf to the repair site.
uint32_t depth(std::span<const TreeNode> children_of_root);
/// Puts all children in the order in which their sums are complete.
void order_children(std::vector<TreeNode>& children);

/// A tree that carries the slices i with bit (i mod period) of `slice_mask` set.
struct SliceTree {
  std::vector<TreeNode> children;  ///< of the repair site
  uint64_t slice_mask = 0;
};

/// The trees of one repair: each slice is carried by exactly one.
struct TreeSet {
  uint32_t period = 0;  ///< 0: one tree carries all slices; at most kMaxSlicePeriod
  std::vector<SliceTree> trees;

  static TreeSet one(std::vector<TreeNode> children);
  /// Of the slices, 0..1.
  double share(const SliceTree& tree) const;
};

inline constexpr uint32_t kMaxSlicePeriod = 64;

}  // namespace kintsugi::repair_manager

/// Shapes of a repair: which helper sends its partial sum to whom. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/proto/repair.pb.h"

namespace kintsugi::repair_manager {

/// The shapes: STAGGERED is described in Mitra 2016, section 4.4.2; PPR takes ceil(log2(k+1)) timesteps (theorem
/// 4.4.1); CHAIN is known as repair pipelining; WEIGHTED is weighted_tree.h's.
using Shape = proto::RepairShape;

/// A helper and what hangs below it. `helper` is its position in the list of helpers, best first.
struct TreeNode {
  size_t helper = 0;
  std::vector<TreeNode> children;  ///< ordered by when their sums are complete: leaves first
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
  std::vector<TreeNode> children;  ///< the nodes that send to the repair site
  uint64_t slice_mask = 0;
};

/// The trees of one repair: each slice is carried by exactly one.
struct TreeSet {
  uint32_t period = 0;  ///< 0: one tree carries all slices; at most kMaxSlicePeriod
  std::vector<SliceTree> trees;

  static TreeSet one(std::vector<TreeNode> children);
  /// The tree's share of the slices, 0..1.
  double share(const SliceTree& tree) const;
};

inline constexpr uint32_t kMaxSlicePeriod = 64;

}  // namespace kintsugi::repair_manager

/// Decides who receives from whom, once it is known which helpers carry which slices (see weighted_tree.h).
/// Pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "repair_manager/trees/link_rate.h"
#include "repair_manager/trees/slice_shares.h"
#include "repair_manager/trees/tree_plan.h"

namespace kintsugi::repair_manager {

/// A node receives more sums than this only where the rate demands it: each takes memory and a core's time.
inline constexpr uint32_t kComfortableFanIn = 4;

/// Slack for rounding, which must not cost a node a child.
inline constexpr double kRateSlack = 1 + 1e-9;

/// The number of sums at `rate` that fit into a downlink of `down`, `most` at most.
inline uint32_t fan_in(double down, double rate, size_t most) {
  return static_cast<uint32_t>(std::min<double>(static_cast<double>(most), down * kRateSlack / rate));
}

/// Makes a tree for every group of `shares`, in which no downlink carries more than it can at `rate` and none is
/// nearly full that need not be. nullopt: the downlinks do not suffice.
std::optional<TreeSet> balanced_trees(std::span<const LinkRate> helpers, const SliceShares& shares,
                                      double root_down, double rate);

}  // namespace kintsugi::repair_manager

/// Decides which helpers carry which slices when some can carry only a part of them (see weighted_tree.h).
/// Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "repair_manager/trees/link_rate.h"

namespace kintsugi::repair_manager {

/// One tree, or one of several, this near the best is good enough to be the simpler one.
inline constexpr double kNearEnough = 0.92;
inline constexpr uint32_t kMaxTrees = 8;   ///< trees in one repair
inline constexpr size_t kMaxHelpers = 32;  ///< helpers in one repair: sets of them are masks of 32 bits

struct SliceShares {
  struct Group {
    uint32_t helpers = 0;     ///< mask of `needed` helpers
    uint64_t slice_mask = 0;  ///< mask over the `period`: the slices that the group carries
  };

  size_t needed = 0;
  uint32_t period = 1;
  double rate = 0;              ///< rate that the uplinks allow
  std::vector<uint32_t> units;  ///< index: helper; positions of the period that it carries
  std::vector<Group> groups;    ///< groups with disjoint masks that together cover the period

  double share(size_t helper) const { return static_cast<double>(units[helper]) / period; }
};

/// Lays out which helpers carry which positions of the period: helper h carries units[h] <= period of them, and all
/// together the same number at each. Of one helper's units as many as possible are at positions that share their
/// helpers, in this order; the positions of a group are spread evenly, because slices are awaited in order.
std::vector<SliceShares::Group> lay_out_shares(std::span<const size_t> order, std::span<const uint32_t> units,
                                               uint32_t period);

/// Shares for `rate`, as near to it as uplinks and a period of at most `most` allow: the fastest helpers
/// carry all slices. The smallest period that is nearly as good as the best, so that the trees are few.
SliceShares share_slices(std::span<const LinkRate> helpers, size_t needed, double rate, uint32_t most);

}  // namespace kintsugi::repair_manager

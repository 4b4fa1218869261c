#include "repair_manager/trees/weighted_tree.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "common/base/assert.h"
#include "repair_manager/trees/balanced_trees.h"
#include "repair_manager/trees/slice_shares.h"

namespace kintsugi::repair_manager {
namespace {

constexpr int kBisections = 40;
constexpr double kPrecision = 1e-3;       // rates are determined up to this share of the bound
constexpr double kBackOff = 0.97;         // factor from one rate to the next, when no trees exist for it
constexpr int kMaxBackOffs = 60;          // 0.97^60: down to 0.16 of the bound
constexpr double kWorthSplitting = 1.10;  // a split must be this much faster than the best single tree

/// Picks the best `needed` helpers for one tree at `rate`: among those that can send so fast, those that can receive
/// most. The tree is feasible if the root and they have a place for each of them.
struct SingleTree {
  uint32_t helpers = 0;  // mask
  bool feasible = false;

  SingleTree(double rate, std::span<const LinkRate> links, size_t needed, double root_down) {
    struct Place {
      uint32_t children;
      size_t helper;
      bool operator<(const Place& other) const {
        return children != other.children ? children > other.children : helper < other.helper;
      }
    };
    std::array<Place, kMaxHelpers> places;
    size_t fast = 0;
    for (size_t h = 0; h < links.size(); ++h)
      if (links[h].up * kRateSlack >= rate) places[fast++] = {fan_in(links[h].down, rate, needed), h};
    const uint32_t root = fan_in(root_down, rate, needed);
    if (fast < needed || root == 0) return;
    std::sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(fast));
    size_t all = root;
    for (size_t i = 0; i < needed; ++i) {
      all += places[i].children;
      helpers |= 1u << places[i].helper;
    }
    // When helpers are attached in order, those with children first, every one of them finds a place.
    feasible = all >= needed;
  }
};

double best_single_rate(std::span<const LinkRate> helpers, size_t needed, double root_down, double bound) {
  // A tree that is feasible at a rate is feasible at every lower one, so the best rate can be bisected.
  if (SingleTree(bound, helpers, needed, root_down).feasible) return bound;
  double low = 0, high = bound;
  for (int i = 0; i < kBisections && (low == 0 || high - low > bound * kPrecision); ++i) {
    const double rate = (low + high) / 2;
    (SingleTree(rate, helpers, needed, root_down).feasible ? low : high) = rate;
  }
  KINTSUGI_ASSERT(low > 0);
  return low;
}

TreeSet single_tree(double rate, std::span<const LinkRate> helpers, size_t needed, double root_down) {
  const SingleTree tree(rate, helpers, needed, root_down);
  SliceShares shares{.needed = needed, .rate = rate};
  shares.units.resize(helpers.size());
  for (size_t h = 0; h < helpers.size(); ++h)
    shares.units[h] = tree.helpers >> h & 1;
  shares.groups.push_back({.helpers = tree.helpers, .slice_mask = 1});
  std::optional<TreeSet> trees = balanced_trees(helpers, shares, root_down, rate);
  KINTSUGI_ASSERT(trees);
  return std::move(*trees);
}

/// Spreads unchanged shares over more trees, so that those may differ in who receives.
void refine(SliceShares& shares, uint32_t most) {
  while (shares.period < kMaxTrees && 2 * shares.period <= most) {
    for (SliceShares::Group& group : shares.groups)
      group.slice_mask |= group.slice_mask << shares.period;
    for (uint32_t& units : shares.units)
      units *= 2;
    shares.period *= 2;
  }
  while (shares.groups.size() < kMaxTrees) {
    const auto largest = std::max_element(shares.groups.begin(), shares.groups.end(),
                                          [](const SliceShares::Group& a, const SliceShares::Group& b) {
                                            return std::popcount(a.slice_mask) < std::popcount(b.slice_mask);
                                          });
    if (std::popcount(largest->slice_mask) == 1) return;
    SliceShares::Group other{.helpers = largest->helpers};
    bool second = false;  // every other position goes to the second group
    for (uint64_t left = largest->slice_mask; left != 0; left &= left - 1, second = !second)
      if (second) other.slice_mask |= left & -left;
    largest->slice_mask &= ~other.slice_mask;
    shares.groups.push_back(other);
  }
}

/// Finds several trees at `bound`, or as near below it as there are any.
std::optional<TreeSet> split(std::span<const LinkRate> helpers, size_t needed, double root_down, double bound,
                             uint64_t slices) {
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(kMaxSlicePeriod, slices));
  double rate = bound;
  for (int i = 0; i < kMaxBackOffs; ++i, rate *= kBackOff) {
    SliceShares shares = share_slices(helpers, needed, rate, most);
    if (shares.groups.size() > kMaxTrees) continue;
    for (const bool refined : {false, true}) {
      if (refined) refine(shares, most);
      if (auto trees = balanced_trees(helpers, shares, root_down, std::min(rate, shares.rate))) return trees;
    }
  }
  return std::nullopt;
}

void add_loads(std::span<const TreeNode> children, double share, std::vector<LinkRate>& loads) {
  for (const TreeNode& child : children) {
    loads[child.helper].up += share;
    loads[child.helper].down += share * static_cast<double>(child.children.size());
    add_loads(child.children, share, loads);
  }
}

}  // namespace

double bottleneck_bound(std::span<const LinkRate> helpers, size_t needed, double root_down) {
  const auto k = static_cast<double>(needed);
  const auto possible = [&](double rate) {
    double up = 0, down = std::min(root_down, k * rate);
    for (const LinkRate& link : helpers) {
      up += std::min(rate, link.up);
      down += std::min(link.down, (k - 1) * std::min(rate, link.up));
    }
    return up * kRateSlack >= k * rate && down * kRateSlack >= k * rate;
  };
  double low = 0, high = root_down;
  if (possible(high)) return high;
  for (int i = 0; i < kBisections; ++i) {
    const double rate = (low + high) / 2;
    (possible(rate) ? low : high) = rate;
  }
  return low;
}

double bottleneck_rate(const TreeSet& trees, std::span<const LinkRate> helpers, double root_down) {
  std::vector<LinkRate> loads(helpers.size());
  double root_load = 0;
  for (const SliceTree& tree : trees.trees) {
    const double share = trees.share(tree);
    root_load += share * static_cast<double>(tree.children.size());
    add_loads(tree.children, share, loads);
  }
  double rate = root_down / root_load;
  for (size_t h = 0; h < helpers.size(); ++h) {
    if (loads[h].up > 0) rate = std::min(rate, helpers[h].up / loads[h].up);
    if (loads[h].down > 0) rate = std::min(rate, helpers[h].down / loads[h].down);
  }
  return rate;
}

TreeSet plan_weighted(std::span<const LinkRate> helpers, size_t needed, double root_down, uint64_t slices) {
  KINTSUGI_ASSERT(needed > 0 && needed <= helpers.size() && helpers.size() <= kMaxHelpers);
  const double bound = bottleneck_bound(helpers, needed, root_down);

  const auto preferred = helpers.first(needed);
  double single =
      best_single_rate(preferred, needed, root_down, bottleneck_bound(preferred, needed, root_down));
  if (needed == helpers.size() || single >= bound * kNearEnough)
    return single_tree(single, preferred, needed, root_down);
  single = best_single_rate(helpers, needed, root_down, bound);
  if (single < bound * kNearEnough) {
    std::optional<TreeSet> several = split(helpers, needed, root_down, bound, slices);
    if (several && bottleneck_rate(*several, helpers, root_down) > single * kWorthSplitting)
      return std::move(*several);
  }
  return single_tree(single, helpers, needed, root_down);
}

}  // namespace kintsugi::repair_manager

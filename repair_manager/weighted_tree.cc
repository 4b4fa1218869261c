#include "repair_manager/weighted_tree.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <optional>

#include "common/base/assert.h"
#include "repair_manager/slice_shares.h"

namespace kintsugi::repair_manager {
namespace {

constexpr int kBisections = 40;
constexpr double kPrecision = 1e-3;       // of the bound
constexpr double kSlack = 1 + 1e-9;       // rounding must not cost a child
constexpr double kBackOff = 0.97;         // of the rate, when no trees for it are found
constexpr int kMaxBackOffs = 60;          // 0.16 of the bound
constexpr double kWorthSplitting = 1.10;  // a split gains at least this over the best single tree
// A tree may be flatter than it must be while no downlink carries more than this. Uplinks that send all the
// time stall for moments; what comes later then comes beside what is due, and at the root all of it together.
constexpr double kCalm = 0.5;

uint32_t fan_in(double down, double rate, size_t most) {
  return static_cast<uint32_t>(std::min<double>(static_cast<double>(most), down * kSlack / rate));
}

/// Of the best `needed` helpers for one tree at `rate`: among those that can send so fast, those that can
/// receive most. The root and they have a place for each.
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
      if (links[h].up * kSlack >= rate) places[fast++] = {fan_in(links[h].down, rate, needed), h};
    const uint32_t root = fan_in(root_down, rate, needed);
    if (fast < needed || root == 0) return;
    std::sort(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(fast));
    size_t all = root;
    for (size_t i = 0; i < needed; ++i) {
      all += places[i].children;
      helpers |= 1u << places[i].helper;
    }
    // Attached in order, those with children first, all find a place then.
    feasible = all >= needed;
  }
};

double best_single_rate(std::span<const LinkRate> helpers, size_t needed, double root_down, double bound) {
  // Feasible at a rate means feasible at every lower one.
  if (SingleTree(bound, helpers, needed, root_down).feasible) return bound;
  double low = 0, high = bound;
  for (int i = 0; i < kBisections && (low == 0 || high - low > bound * kPrecision); ++i) {
    const double rate = (low + high) / 2;
    (SingleTree(rate, helpers, needed, root_down).feasible ? low : high) = rate;
  }
  KINTSUGI_ASSERT(low > 0);
  return low;
}

/// How many children each helper of each tree has, so that no downlink carries more than it can at `rate`,
/// and none is nearly full that need not be.
class Downlinks {
 public:
  Downlinks(std::span<const LinkRate> helpers, const SliceShares& shares, double root_down, double rate)
      : helpers_(helpers), shares_(shares), root_(helpers.size()) {
    for (size_t h = 0; h < root_; ++h)
      down_[h] = helpers[h].down;
    down_[root_] = root_down;
    for (const SliceShares::Group& group : shares.groups) {
      Tree& tree = trees_.emplace_back();
      tree.members = group.helpers;
      tree.load = rate * std::popcount(group.slice_mask) / shares.period;
      for (size_t node = 0; node <= root_; ++node) {
        if (!tree.has(node, root_)) continue;
        const double share = node == root_ ? 1 : shares.share(node);
        tree.children[node] = fan_in(down_[node], share * rate, kComfortableFanIn);
        tree.places += tree.children[node];
        used_[node] += tree.children[node] * tree.load;
      }
    }
  }

  /// False: there is not enough for all.
  bool balance() {
    for (Tree& tree : trees_)
      while (tree.places > shares_.needed && give_back(tree)) {
      }
    for (Tree& tree : trees_)
      while (tree.places < shares_.needed)
        if (!take(tree)) return false;
    return true;
  }

  std::optional<TreeSet> trees() const {
    TreeSet set{.period = shares_.period};
    for (size_t t = 0; t < trees_.size(); ++t) {
      auto tree = build(trees_[t]);
      if (!tree) return std::nullopt;
      set.trees.push_back({.children = std::move(*tree), .slice_mask = shares_.groups[t].slice_mask});
    }
    if (set.trees.size() == 1) {
      set.period = 0;
      set.trees[0].slice_mask = 0;
    }
    return set;
  }

 private:
  // Nodes are the helpers and, after them, the root.
  struct Tree {
    uint32_t members = 0;
    double load = 0;  // of each edge
    std::array<uint32_t, kMaxHelpers + 1> children{};
    size_t places = 0;  // children of all

    bool has(size_t node, size_t root) const { return node == root || (members >> node & 1) != 0; }
  };

  /// A place of whoever has least to spare, the root first: all comes together there. The root keeps one.
  /// False: nobody is busy.
  bool give_back(Tree& tree) {
    size_t from = root_;
    bool busy = false;
    double least = 1e300;
    for (size_t node = 0; node <= root_; ++node) {
      if (tree.children[node] <= (node == root_ ? 1 : 0)) continue;
      busy = busy || used_[node] > kCalm * down_[node];
      if (down_[node] - used_[node] > least) continue;
      least = down_[node] - used_[node];
      from = node;
    }
    if (!busy) return false;
    --tree.children[from];
    --tree.places;
    used_[from] -= tree.load;
    return true;
  }

  bool take(Tree& tree) {
    size_t to = root_ + 1;
    double least = kSlack;
    for (size_t node = root_ + 1; node-- > 0;) {
      if (!tree.has(node, root_) || used_[node] + tree.load > least * down_[node]) continue;
      least = (used_[node] + tree.load) / down_[node];
      to = node;
    }
    if (to > root_) return false;
    ++tree.children[to];
    ++tree.places;
    used_[to] += tree.load;
    return true;
  }

  /// Breadth first, those with most children nearest to the root. Nothing when the places do not suffice.
  std::optional<std::vector<TreeNode>> build(const Tree& tree) const {
    std::array<size_t, kMaxHelpers + 1> order{root_};
    size_t count = 1;
    for (size_t h = 0; h < root_; ++h)
      if (tree.has(h, root_)) order[count++] = h;
    std::sort(order.begin() + 1, order.begin() + static_cast<std::ptrdiff_t>(count), [&](size_t a, size_t b) {
      return tree.children[a] != tree.children[b] ? tree.children[a] > tree.children[b] : a < b;
    });
    std::array<size_t, kMaxHelpers + 2> first_child;
    first_child[0] = 1;
    for (size_t i = 0; i < count; ++i) {
      if (first_child[i] <= i && i > 0 && first_child[i] < count) return std::nullopt;
      first_child[i + 1] = std::min<size_t>(first_child[i] + tree.children[order[i]], count);
    }
    if (first_child[count] < count) return std::nullopt;
    std::array<TreeNode, kMaxHelpers + 1> nodes;
    for (size_t i = count; i-- > 0;) {
      nodes[i].helper = order[i];
      nodes[i].children.reserve(first_child[i + 1] - first_child[i]);
      for (size_t child = first_child[i]; child < first_child[i + 1]; ++child)
        nodes[i].children.push_back(std::move(nodes[child]));
    }
    order_children(nodes[0].children);
    return std::move(nodes[0].children);
  }

  std::span<const LinkRate> helpers_;
  const SliceShares& shares_;
  size_t root_;
  std::vector<Tree> trees_;
  std::array<double, kMaxHelpers + 1> down_{}, used_{};
};

TreeSet single_tree(double rate, std::span<const LinkRate> helpers, size_t needed, double root_down) {
  const SingleTree tree(rate, helpers, needed, root_down);
  SliceShares shares{.needed = needed, .rate = rate};
  shares.units.resize(helpers.size());
  for (size_t h = 0; h < helpers.size(); ++h)
    shares.units[h] = tree.helpers >> h & 1;
  shares.groups.push_back({.helpers = tree.helpers, .slice_mask = 1});
  Downlinks downlinks(helpers, shares, root_down, rate);
  const bool enough = downlinks.balance();
  std::optional<TreeSet> trees = enough ? downlinks.trees() : std::nullopt;
  KINTSUGI_ASSERT(trees);
  return std::move(*trees);
}

/// The same shares over more trees, so that those may differ in who receives.
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
    bool second = false;  // every other one
    for (uint64_t left = largest->slice_mask; left != 0; left &= left - 1, second = !second)
      if (second) other.slice_mask |= left & -left;
    largest->slice_mask &= ~other.slice_mask;
    shares.groups.push_back(other);
  }
}

/// Several trees at `bound`, or as near to it as they are found.
std::optional<TreeSet> split(std::span<const LinkRate> helpers, size_t needed, double root_down, double bound,
                             uint64_t slices) {
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(kMaxSlicePeriod, slices));
  double rate = bound;
  for (int i = 0; i < kMaxBackOffs; ++i, rate *= kBackOff) {
    SliceShares shares = share_slices(helpers, needed, rate, most);
    if (shares.groups.size() > kMaxTrees) continue;
    for (const bool refined : {false, true}) {
      if (refined) refine(shares, most);
      Downlinks downlinks(helpers, shares, root_down, std::min(rate, shares.rate));
      if (!downlinks.balance()) continue;
      if (auto trees = downlinks.trees()) return trees;
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
    return up * kSlack >= k * rate && down * kSlack >= k * rate;
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

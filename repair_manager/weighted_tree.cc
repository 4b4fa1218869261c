#include "repair_manager/weighted_tree.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
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

uint32_t fan_in(double down, double rate, size_t most) {
  return static_cast<uint32_t>(std::min<double>(static_cast<double>(most), down * kSlack / rate));
}

/// A helper of one tree and how many children it can have.
struct Place {
  size_t helper;
  uint32_t children;
};

/// Breadth first, those with most children nearest to the root. Nothing when the places do not suffice.
std::optional<std::vector<TreeNode>> build_tree(std::vector<Place> places, uint32_t root_children) {
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.children > b.children; });
  std::vector<std::vector<size_t>> children(places.size() + 1);  // [0]: the root, [i + 1]: places[i]
  size_t parent = 0;
  const auto room = [&](size_t node) { return node == 0 ? root_children : places[node - 1].children; };
  for (size_t i = 0; i < places.size(); ++i) {
    while (parent <= i && children[parent].size() >= room(parent))
      ++parent;
    if (parent > i) return std::nullopt;
    children[parent].push_back(i + 1);
  }
  std::vector<TreeNode> nodes(places.size() + 1);
  for (size_t i = places.size() + 1; i-- > 0;) {
    if (i > 0) nodes[i].helper = places[i - 1].helper;
    for (size_t child : children[i])
      nodes[i].children.push_back(std::move(nodes[child]));
  }
  order_children(nodes[0].children);
  return std::move(nodes[0].children);
}

/// The best `needed` helpers for one tree at `rate`: among those that can send so fast, those that can
/// receive most.
std::optional<std::vector<TreeNode>> tree_at(double rate, std::span<const LinkRate> helpers, size_t needed,
                                             double root_down, size_t most) {
  std::vector<Place> places;
  for (size_t h = 0; h < helpers.size(); ++h)
    if (helpers[h].up * kSlack >= rate) places.push_back({h, fan_in(helpers[h].down, rate, most)});
  if (places.size() < needed) return std::nullopt;
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.children > b.children; });
  places.resize(needed);
  return build_tree(std::move(places), fan_in(root_down, rate, most));
}

/// tree_at() would find one: attached in order, those with children first, `needed` helpers find a place
/// exactly when all places together are as many.
bool feasible(double rate, std::span<const LinkRate> helpers, size_t needed, double root_down) {
  std::array<uint32_t, kMaxHelpers> children{};
  size_t fast = 0;
  for (const LinkRate& link : helpers)
    if (link.up * kSlack >= rate) children[fast++] = fan_in(link.down, rate, needed);
  const uint32_t root = fan_in(root_down, rate, needed);
  if (fast < needed || root == 0) return false;
  std::sort(children.begin(), children.begin() + static_cast<std::ptrdiff_t>(fast), std::greater<>());
  return std::accumulate(children.begin(), children.begin() + static_cast<std::ptrdiff_t>(needed), root) >=
         needed;
}

std::vector<TreeNode> best_tree(std::span<const LinkRate> helpers, size_t needed, double root_down,
                                double bound) {
  // Feasible at a rate means feasible at every lower one.
  double low = 0, high = bound;
  if (feasible(high, helpers, needed, root_down)) low = high;
  for (int i = 0; i < kBisections && (low == 0 || high - low > bound * kPrecision); ++i) {
    const double rate = (low + high) / 2;
    (feasible(rate, helpers, needed, root_down) ? low : high) = rate;
  }
  KINTSUGI_ASSERT(low > 0);
  auto tree = tree_at(low, helpers, needed, root_down, kComfortableFanIn);
  if (!tree) tree = tree_at(low, helpers, needed, root_down, needed);
  return std::move(*tree);
}

/// How many children each helper of each tree has, so that no downlink carries more than it can at `rate`.
class Downlinks {
 public:
  Downlinks(std::span<const LinkRate> helpers, const SliceShares& shares, double root_down, double rate)
      : helpers_(helpers), shares_(shares), rate_(rate), root_down_(root_down), used_(helpers.size()) {
    for (const SliceShares::Group& group : shares.groups) {
      std::vector<uint32_t>& children = children_.emplace_back(helpers.size());
      for (size_t h = 0; h < helpers.size(); ++h) {
        if (!(group.helpers >> h & 1)) continue;
        children[h] = fan_in(helpers[h].down, shares.share(h) * rate, kComfortableFanIn);
        used_[h] += children[h] * load_of(group);
      }
      root_children_.push_back(fan_in(root_down, rate, kComfortableFanIn));
      root_used_ += root_children_.back() * load_of(group);
    }
  }

  /// Gives trees that lack places for some helper what others do not need. False: there is not enough.
  bool balance() {
    bool lacking = false;
    for (size_t t = 0; t < children_.size(); ++t)
      lacking = lacking || places(t) < shares_.needed;
    if (!lacking) return true;
    for (size_t t = 0; t < children_.size(); ++t)
      while (places(t) > shares_.needed)
        give_back(t);
    for (size_t t = 0; t < children_.size(); ++t)
      while (places(t) < shares_.needed)
        if (!take(t)) return false;
    return true;
  }

  std::optional<TreeSet> trees() const {
    TreeSet set{.period = shares_.period};
    for (size_t t = 0; t < children_.size(); ++t) {
      std::vector<Place> members;
      for (size_t h = 0; h < helpers_.size(); ++h)
        if (shares_.groups[t].helpers >> h & 1) members.push_back({h, children_[t][h]});
      auto tree = build_tree(std::move(members), root_children_[t]);
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
  double load_of(const SliceShares::Group& group) const {
    return rate_ * std::popcount(group.slice_mask) / shares_.period;
  }
  size_t places(size_t t) const {
    return std::accumulate(children_[t].begin(), children_[t].end(), size_t{root_children_[t]});
  }
  void give_back(size_t t) {
    // The root keeps one; else whoever has least to spare.
    size_t from = helpers_.size();
    double least = root_children_[t] > 1 ? root_down_ - root_used_ : 1e300;
    for (size_t h = 0; h < helpers_.size(); ++h) {
      if (children_[t][h] == 0 || helpers_[h].down - used_[h] >= least) continue;
      least = helpers_[h].down - used_[h];
      from = h;
    }
    uint32_t& children = from < helpers_.size() ? children_[t][from] : root_children_[t];
    (from < helpers_.size() ? used_[from] : root_used_) -= load_of(shares_.groups[t]);
    --children;
  }
  bool take(size_t t) {
    const double load = load_of(shares_.groups[t]);
    size_t to = helpers_.size();
    double most = root_down_ - root_used_;
    for (size_t h = 0; h < helpers_.size(); ++h) {
      if (!(shares_.groups[t].helpers >> h & 1) || helpers_[h].down - used_[h] <= most) continue;
      most = helpers_[h].down - used_[h];
      to = h;
    }
    if (most * kSlack < load) return false;
    ++(to < helpers_.size() ? children_[t][to] : root_children_[t]);
    (to < helpers_.size() ? used_[to] : root_used_) += load;
    return true;
  }

  std::span<const LinkRate> helpers_;
  const SliceShares& shares_;
  double rate_;
  double root_down_, root_used_ = 0;
  std::vector<double> used_;                     // of each helper's downlink
  std::vector<std::vector<uint32_t>> children_;  // of each helper, for each tree
  std::vector<uint32_t> root_children_;          // for each tree
};

/// Several trees at `bound`, or as near to it as they are found.
std::optional<TreeSet> split(std::span<const LinkRate> helpers, size_t needed, double root_down, double bound,
                             uint64_t slices) {
  const auto most = static_cast<uint32_t>(std::min<uint64_t>(kMaxSlicePeriod, slices));
  double rate = bound;
  for (int i = 0; i < kMaxBackOffs; ++i, rate *= kBackOff) {
    const SliceShares shares = share_slices(helpers, needed, rate, most);
    if (shares.groups.size() > kMaxTrees) continue;
    Downlinks downlinks(helpers, shares, root_down, std::min(rate, shares.rate));
    if (!downlinks.balance()) continue;
    if (auto trees = downlinks.trees()) return trees;
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
  const auto rate_of = [&](const TreeSet& trees) { return bottleneck_rate(trees, helpers, root_down); };

  const auto preferred = helpers.first(needed);
  TreeSet best =
      TreeSet::one(best_tree(preferred, needed, root_down, bottleneck_bound(preferred, needed, root_down)));
  if (needed == helpers.size() || rate_of(best) >= bound * kNearEnough) return best;
  best = TreeSet::one(best_tree(helpers, needed, root_down, bound));
  const double single = rate_of(best);
  if (single >= bound * kNearEnough) return best;
  std::optional<TreeSet> several = split(helpers, needed, root_down, bound, slices);
  if (several && rate_of(*several) > single * kWorthSplitting) return std::move(*several);
  return best;
}

}  // namespace kintsugi::repair_manager

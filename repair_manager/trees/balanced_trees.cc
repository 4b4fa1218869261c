#include "repair_manager/trees/balanced_trees.h"

#include <algorithm>
#include <array>
#include <bit>

namespace kintsugi::repair_manager {
namespace {

// A tree may be flatter than it must be while no downlink carries more than this share. Uplinks that send all the time
// stall for moments; the delayed bytes then arrive beside those that are due, and at the root all of them together.
constexpr double kCalm = 0.5;

/// Decides how many children each helper of each tree has, so that no downlink carries more than it can at `rate`, and
/// none is nearly full that need not be.
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

  /// Gives every tree exactly as many places as it has helpers. Returns false if the downlinks do not suffice.
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
    double load = 0;  // bytes per second on each edge
    std::array<uint32_t, kMaxHelpers + 1> children{};
    size_t places = 0;  // sum over `children`

    bool has(size_t node, size_t root) const { return node == root || (members >> node & 1) != 0; }
  };

  /// Gives back a place of the node that has least to spare, the root first, because all sums come together there. The
  /// root keeps one. Returns false if no node is busy.
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
    double least = kRateSlack;
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

  /// Attaches nodes breadth first, those with most children nearest to the root. Nothing if the places do not suffice.
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

}  // namespace

std::optional<TreeSet> balanced_trees(std::span<const LinkRate> helpers, const SliceShares& shares,
                                      double root_down, double rate) {
  Downlinks downlinks(helpers, shares, root_down, rate);
  return downlinks.balance() ? downlinks.trees() : std::nullopt;
}

}  // namespace kintsugi::repair_manager

#include "repair_manager/trees/tree_choice.h"

#include <algorithm>

namespace kintsugi::repair_manager {
namespace {

constexpr Shape kFixedShapes[] = {Shape::CHAIN, Shape::PPR, Shape::STAR};
// A chunk has at least so many periods: with fewer, a split is uneven at its end.
constexpr uint64_t kSlicesAPeriod = 4;

/// Returns the rate of a chain of the first helpers.
double chain_rate(const TreeQuestion& question) {
  double rate = question.root_down;
  for (const LinkRate& link : question.helpers.first(question.needed))
    rate = std::min({rate, link.up, link.down});
  return rate;
}

/// Returns true if some trees may be faster than a chain of the first helpers.
bool links_differ(const TreeQuestion& question, double chain) {
  double fastest = 0;
  for (const LinkRate& link : question.helpers)
    fastest = std::max(fastest, link.up);
  return chain < kNearEnough * std::min(fastest, question.root_down);
}

TreeChoice weigh(Shape shape, TreeSet trees, double rate, const TreeQuestion& question,
                 const LinkModel& link) {
  uint32_t hops = 0;
  for (const SliceTree& tree : trees.trees)
    hops = std::max(hops, depth(tree.children));
  uint64_t slice = question.slice_bytes;
  if (slice == 0)
    slice = question.read ? read_slice_bytes(hops, question.load, rate, link)
                          : default_slice_bytes(hops, question.load, rate, link);
  const Estimate cost =
      estimate(trees, {shape, question.load, slice}, question.helpers, question.root_down, link);
  return {{shape, slice, cost.seconds, cost.first_slice_seconds}, std::move(trees)};
}

TreeChoice fixed(Shape shape, double rate, const TreeQuestion& question, const LinkModel& link) {
  return weigh(shape, TreeSet::one(plan_tree(question.needed, shape)), rate, question, link);
}

/// Returns a lower limit, from the uplinks and the root's downlink alone. It is cheap, and most shapes are ruled out
/// by it.
double least_seconds(Shape shape, const TreeQuestion& question) {
  const auto bytes = static_cast<double>(question.load.sum_bytes);
  double slowest = 0, received = 0, smallest = question.load.sums;
  for (size_t h = 0; h < question.needed; ++h) {
    const TreeLoad& load = question.load;
    const double sums = load.rows_read.empty() ? load.sums : std::min(load.sums, load.rows_read[h]);
    slowest = std::max(slowest, sums * bytes / question.helpers[h].up);
    received += sums;
    smallest = std::min(smallest, sums);
  }
  if (shape == Shape::PPR) received = smallest * ppr_timesteps(static_cast<uint32_t>(question.needed));
  if (shape == Shape::CHAIN) received = smallest;
  return std::max(slowest, received * bytes / question.root_down);
}

TreeChoice weighted(const TreeQuestion& question, const LinkModel& link) {
  // The period must fit into the chunk several times; how large a slice is best depends on the trees.
  const double bound = bottleneck_bound(question.helpers, question.needed, question.root_down);
  const auto hops = static_cast<uint32_t>(question.needed);
  uint64_t slice = question.slice_bytes;
  if (slice == 0) slice = default_slice_bytes(hops, question.load, bound, link);
  const uint64_t slices = question.load.sum_bytes / slice / kSlicesAPeriod;
  TreeSet trees = plan_weighted(question.helpers, question.needed, question.root_down, slices);
  const double rate = bottleneck_rate(trees, question.helpers, question.root_down);
  return weigh(Shape::WEIGHTED, std::move(trees), rate, question, link);
}

TreeChoice choose(const TreeQuestion& question, const LinkModel& link) {
  if (!question.trees.trees.empty()) {
    const Shape shape = question.trees.trees.size() == 1 ? Shape::CHAIN : Shape::WEIGHTED;
    // A tree of few slices fills its pipeline at its share of the rate.
    double least = 1;
    for (const SliceTree& tree : question.trees.trees)
      least = std::min(least, question.trees.share(tree));
    const double rate = bottleneck_rate(question.trees, question.helpers, question.root_down);
    return weigh(shape, question.trees, least * rate, question, link);
  }
  const double rate = chain_rate(question);
  const bool differ = links_differ(question, rate);
  if (question.wanted == Shape::WEIGHTED)
    return differ ? weighted(question, link) : fixed(Shape::CHAIN, rate, question, link);
  if (question.wanted != Shape::AUTO) return fixed(question.wanted, rate, question, link);

  TreeChoice best;
  if (differ) best = weighted(question, link);
  const auto consider = [&](Shape shape) {
    if (!best.trees.trees.empty() && least_seconds(shape, question) > best.choice.seconds) return;
    TreeChoice choice = fixed(shape, rate, question, link);
    if (best.trees.trees.empty() || choice.choice.seconds <= best.choice.seconds) best = std::move(choice);
  };
  if (question.needed == 1) {  // all shapes are the same
    consider(Shape::STAR);
    return best;
  }
  for (Shape shape : kFixedShapes)
    consider(shape);
  return best;
}

}  // namespace

TreeChoice choose_trees(const TreeQuestion& question, const LinkModel& link) {
  if (question.needed == 0) return {{Shape::STAR, kDefaultSliceBytes}, TreeSet::one({})};
  TreeChoice choice = choose(question, link);
  choice.choice.bound_seconds = static_cast<double>(question.load.sum_bytes) * question.load.sums /
                                bottleneck_bound(question.helpers, question.needed, question.root_down);
  return choice;
}

}  // namespace kintsugi::repair_manager

#include "repair_manager/trees/cost_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/base/assert.h"

namespace kintsugi::repair_manager {
namespace {

/// Walks the trees and adds up what their links carry.
class Walk {
 public:
  Walk(std::span<const LinkRate> helpers, const TreeLoad& load, uint64_t slice_bytes, const LinkModel& link)
      : helpers_(helpers),
        load_(load),
        slice_(static_cast<double>(std::max<uint64_t>(1, std::min(slice_bytes, load.sum_bytes)))),
        slices_(std::max(1.0, std::ceil(static_cast<double>(load.sum_bytes) / slice_))),
        link_(link),
        busy_(2 * helpers.size()) {}

  double slices() const { return slices_; }
  double round_trip() const { return 2 * link_.hop_latency_seconds; }

  /// Returns the seconds that a link needs for all slices of a sum that is `symbols` times the load.
  double transfer(double symbols, double rate) const {
    return symbols * static_cast<double>(load_.sum_bytes) / rate + slices_ * link_.slice_overhead_seconds;
  }
  double edge(const TreeNode& child, double down) const {
    return transfer(symbols(child), std::min(helpers_[child.helper].up, down));
  }

  struct Path {
    double first_slice = 0;  ///< seconds until the first slice is complete at the parent
    double fill = 0;         ///< the part of first_slice that the links take, summed over the hops
    double slowest = 0;      ///< the largest contribution of one hop to `fill`
    uint32_t hops = 0;
  };
  /// Returns the longest path below, and adds to the links below what they carry of the share.
  Path visit(std::span<const TreeNode> children, double share, double down, double& down_busy) {
    Path longest;
    double all = 0;
    for (const TreeNode& child : children)
      all += slice_seconds(symbols(child), down);
    for (const TreeNode& child : children) {
      const double sums = symbols(child);
      const LinkRate& rate = helpers_[child.helper];
      busy_[2 * child.helper] += share * transfer(sums, rate.up);
      down_busy += share * transfer(sums, down);
      Path path = visit(child.children, share, rate.down, busy_[2 * child.helper + 1]);
      const double hop = std::max(all, slice_seconds(sums, rate.up));
      path.first_slice += hop + round_trip();
      path.slowest = std::max(path.slowest, hop);
      path.fill += hop;
      ++path.hops;
      if (path.first_slice > longest.first_slice) longest = path;
    }
    return longest;
  }

  /// Returns the seconds until the sum of the children is complete when every link carries whole sums, one after
  /// another.
  double unsliced(std::span<const TreeNode> children, double down) const {
    double now = 0;
    for (const TreeNode& child : children)
      now = std::max(now, unsliced(child.children, helpers_[child.helper].down)) + edge(child, down) +
            round_trip();
    return now;
  }

  double busiest(double root_busy) const {
    return std::max(root_busy, *std::max_element(busy_.begin(), busy_.end()));
  }

 private:
  double symbols(const TreeNode& node) const {
    if (load_.rows_read.empty() || !node.children.empty()) return load_.sums;
    return std::min(load_.sums, load_.rows_read[node.helper]);
  }
  /// Returns the time that a link needs for the part of a slice that is forwarded at once.
  double slice_seconds(double symbols, double rate) const {
    const double part = slices_ > 1 ? std::min(slice_, double{kForwardBytes}) : slice_;
    return symbols * part / rate + link_.slice_overhead_seconds;
  }

  std::span<const LinkRate> helpers_;
  const TreeLoad& load_;
  double slice_, slices_;
  const LinkModel& link_;
  std::vector<double> busy_;  // seconds that the up- and downlink of each helper are busy
};

/// Returns at most `bytes` and `most`, rounded down to the load's units times a power of two.
uint64_t slice_within(double bytes, uint64_t most, const TreeLoad& load) {
  const auto units = static_cast<uint64_t>(std::min(bytes, static_cast<double>(most))) / load.slice_unit;
  return std::bit_floor(std::max<uint64_t>(units, 1)) * load.slice_unit;
}

}  // namespace

uint32_t ppr_timesteps(uint32_t k) {
  return static_cast<uint32_t>(std::bit_width(k));
}

uint64_t default_slice_bytes(uint32_t depth, const TreeLoad& load, double bytes_per_second,
                             const LinkModel& link) {
  const double symbols = load.sums;
  if (depth <= 1) return slice_within(kDefaultSliceBytes / symbols, kDefaultSliceBytes, load);
  const double best = std::sqrt(static_cast<double>(load.sum_bytes) * link.slice_overhead_seconds *
                                bytes_per_second / symbols / (depth - 1));
  double bytes = best * std::sqrt(2);  // rounds to the nearest power of two, not down
  // A slice of more than two parts that are forwarded at once fills no pipeline later, and its overhead is less.
  if (bytes >= 2 * kForwardBytes) bytes = std::max(bytes, kDefaultSliceBytes / symbols);
  return slice_within(bytes, kMaxSliceBytes, load);
}

uint64_t read_slice_bytes(uint32_t depth, const TreeLoad& load, double bytes_per_second,
                          const LinkModel& link) {
  const double hop =
      kFirstByteSeconds / std::max(1u, depth) - 2 * link.hop_latency_seconds - link.slice_overhead_seconds;
  return slice_within(std::max(0.0, hop * bytes_per_second / load.sums),
                      default_slice_bytes(depth, load, bytes_per_second, link), load);
}

Estimate estimate(const TreeSet& trees, const Transfer& transfer, std::span<const LinkRate> helpers,
                  double root_down, const LinkModel& link) {
  KINTSUGI_ASSERT(transfer.slice_bytes > 0);
  if (helpers.empty()) return {};
  Walk walk(helpers, transfer.load, transfer.slice_bytes, link);
  double root_busy = 0;
  Walk::Path longest;
  for (const SliceTree& tree : trees.trees) {
    const Walk::Path path = walk.visit(tree.children, trees.share(tree), root_down, root_busy);
    if (path.first_slice > longest.first_slice) longest = path;
  }
  Estimate result{.first_slice_seconds = longest.first_slice};
  if (transfer.shape == Shape::STAGGERED) {
    for (const TreeNode& child : trees.trees.front().children)
      result.seconds += walk.edge(child, root_down) + walk.round_trip();
    result.first_slice_seconds = result.seconds;
    return result;
  }
  result.seconds =
      walk.busiest(root_busy) + longest.fill - longest.slowest + longest.hops * walk.round_trip();
  // Sending whole sums is what slices are compared to; they never take longer.
  if (trees.trees.size() == 1)
    result.seconds = std::min(result.seconds, walk.unsliced(trees.trees.front().children, root_down));
  return result;
}

}  // namespace kintsugi::repair_manager

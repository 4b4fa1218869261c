/// How fast lost chunks can be repaired at all, given where the chunks of their stripes lie.
///
/// Every byte of a lost chunk takes `needed` sums, each of them sent by another holder of its stripe; which
/// holders may differ from byte to byte. So in units of chunks stripe s needs x(s, h) of its holders h with
///   sum over h of x(s, h) = needed,   0 <= x(s, h) <= 1,   sum over s of x(s, h) <= T * uplink(h) / C,
/// and T is the least time for which there are such x: no schedule, shape or split of slices is faster. Sums
/// are received by anybody alive (a destination, or a helper that has however many children), so that
/// downlinks only bound the total; a chunk is stored by one server, over a link that carries nothing faster
/// than its rate.
///
/// Computed exactly (up to rounding): a maximum flow from stripes to servers; where it leaves a stripe short,
/// the minimum cut names stripes and servers that need a longer T, which is tried next (Newton's method on
/// the piecewise linear cut; a few steps).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kintsugi::what_if {

struct PlacementLink {
  double up = 0, down = 0;  ///< bytes a second; 0: takes no part
};

class PlacementBound {
 public:
  using Holders = std::vector<uint32_t>;  ///< servers with a helper chunk of one stripe, each once

  /// `stripes` and `links` outlive it; `needed` holders send for every byte of a lost chunk.
  PlacementBound(std::span<const Holders> stripes, uint32_t needed, double chunk_bytes,
                 std::span<const PlacementLink> links);

  /// Infinite when a stripe has too few holders.
  double seconds() const { return seconds_; }

 private:
  static constexpr uint32_t kSink = 0;
  static constexpr double kNothing = 1e-9;  // chunks
  // Edges come in pairs: i and i ^ 1 are one edge and its reverse.
  struct Edge {
    uint32_t to;
    double left;  // capacity that is not used
  };

  uint32_t stripe_node(uint32_t stripe) const { return 1 + stripe; }
  uint32_t server_node(uint32_t server) const { return 1 + static_cast<uint32_t>(stripes_.size()) + server; }
  void add_edge(uint32_t from, uint32_t to);

  /// False when seconds_ suffices.
  bool raise();

  /// Nodes that a short stripe reaches are the cut's: what their stripes need, less what those get from
  /// servers beyond it, is for the servers within it.
  bool raise_to_cut();

  size_t server_of(uint32_t node) const { return node - 1 - stripes_.size(); }

  /// Hops from the stripes that are short. True when the sink is reached.
  bool measure_distances();

  /// How much of `most` gets from the node to the sink by shortest ways (Dinic).
  double push(uint32_t node, double most);

  static constexpr uint32_t kFar = UINT32_MAX;

  std::span<const Holders> stripes_;
  size_t servers_;
  double needed_;
  double seconds_ = 0;
  std::vector<double> rates_;  // chunks a second
  std::vector<Edge> edges_;
  std::vector<std::vector<uint32_t>> edges_of_;
  std::vector<double> short_;       // of each stripe: what it lacks
  std::vector<uint32_t> distance_;  // of each node
  std::vector<size_t> next_;        // of each node: edges before it are of no use in this phase
};

}  // namespace kintsugi::what_if

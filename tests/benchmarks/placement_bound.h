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

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

namespace kintsugi::repair_manager {

struct PlacementLink {
  double up = 0, down = 0;  ///< bytes a second; 0: takes no part
};

class PlacementBound {
 public:
  using Holders = std::vector<uint32_t>;  ///< servers with a helper chunk of one stripe, each once

  PlacementBound(std::span<const Holders> stripes, uint32_t needed, double chunk_bytes,
                 std::span<const PlacementLink> links)
      : stripes_(stripes),
        servers_(links.size()),
        needed_(needed),
        edges_of_(1 + stripes.size() + links.size()) {
    double up = 0, down = 0, fastest = 0;
    for (const PlacementLink& link : links) {
      rates_.push_back(link.up / chunk_bytes);
      up += link.up;
      down += link.down;
      fastest = std::max(fastest, link.down);
    }
    for (uint32_t s = 0; s < stripes.size(); ++s)
      for (uint32_t server : stripes[s])
        add_edge(stripe_node(s), server_node(server));
    for (uint32_t server = 0; server < servers_; ++server)
      add_edge(server_node(server), kSink);
    const double moved = chunk_bytes * needed * static_cast<double>(stripes.size());
    seconds_ = std::max({moved / up, moved / down, chunk_bytes / fastest});
    while (raise()) {
    }
  }

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
  void add_edge(uint32_t from, uint32_t to) {
    edges_of_[from].push_back(static_cast<uint32_t>(edges_.size()));
    edges_.push_back({to, 0});
    edges_of_[to].push_back(static_cast<uint32_t>(edges_.size()));
    edges_.push_back({from, 0});
  }

  /// False when seconds_ suffices.
  bool raise() {
    if (!std::isfinite(seconds_)) return false;
    for (size_t e = 0; e < edges_.size(); e += 2) {
      edges_[e].left = edges_[e].to == kSink ? seconds_ * rates_[server_of(edges_[e + 1].to)] : 1;
      edges_[e + 1].left = 0;
    }
    short_.assign(stripes_.size(), needed_);
    while (measure_distances()) {
      next_.assign(edges_of_.size(), 0);
      for (uint32_t s = 0; s < stripes_.size(); ++s)
        if (short_[s] > kNothing) short_[s] -= push(stripe_node(s), short_[s]);
    }
    if (std::accumulate(short_.begin(), short_.end(), 0.0) < kNothing * static_cast<double>(needed_))
      return false;
    return raise_to_cut();
  }

  /// Nodes that a short stripe reaches are the cut's: what their stripes need, less what those get from
  /// servers beyond it, is for the servers within it.
  bool raise_to_cut() {
    double demand = 0, rate = 0;
    for (uint32_t s = 0; s < stripes_.size(); ++s) {
      if (distance_[stripe_node(s)] == kFar) continue;
      demand += needed_;
      for (uint32_t server : stripes_[s])
        if (distance_[server_node(server)] == kFar) demand -= 1;
    }
    for (uint32_t server = 0; server < servers_; ++server)
      if (distance_[server_node(server)] != kFar) rate += rates_[server];
    const double seconds = rate > 0 ? demand / rate : std::numeric_limits<double>::infinity();
    if (seconds <= seconds_ * (1 + 1e-9)) return false;
    seconds_ = seconds;
    return true;
  }

  size_t server_of(uint32_t node) const { return node - 1 - stripes_.size(); }

  /// Hops from the stripes that are short. True when the sink is reached.
  bool measure_distances() {
    distance_.assign(edges_of_.size(), kFar);
    std::vector<uint32_t> reached;
    for (uint32_t s = 0; s < stripes_.size(); ++s) {
      if (short_[s] <= kNothing) continue;
      distance_[stripe_node(s)] = 0;
      reached.push_back(stripe_node(s));
    }
    for (size_t i = 0; i < reached.size(); ++i)
      for (uint32_t e : edges_of_[reached[i]])
        if (edges_[e].left > kNothing && distance_[edges_[e].to] == kFar) {
          distance_[edges_[e].to] = distance_[reached[i]] + 1;
          reached.push_back(edges_[e].to);
        }
    return distance_[kSink] != kFar;
  }

  /// How much of `most` gets from the node to the sink by shortest ways (Dinic).
  double push(uint32_t node, double most) {
    if (node == kSink) return most;
    double pushed = 0;
    for (size_t& i = next_[node]; i < edges_of_[node].size(); ++i) {
      Edge& edge = edges_[edges_of_[node][i]];
      if (edge.left <= kNothing || distance_[edge.to] != distance_[node] + 1) continue;
      const double part = push(edge.to, std::min(most - pushed, edge.left));
      edge.left -= part;
      edges_[edges_of_[node][i] ^ 1].left += part;
      pushed += part;
      if (most - pushed <= kNothing) break;
    }
    return pushed;
  }

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

}  // namespace kintsugi::repair_manager

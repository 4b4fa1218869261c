#include "repair_manager/what_if/placement_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kintsugi::what_if {

PlacementBound::PlacementBound(std::span<const Holders> stripes, uint32_t needed, double chunk_bytes,
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

void PlacementBound::add_edge(uint32_t from, uint32_t to) {
  edges_of_[from].push_back(static_cast<uint32_t>(edges_.size()));
  edges_.push_back({to, 0});
  edges_of_[to].push_back(static_cast<uint32_t>(edges_.size()));
  edges_.push_back({from, 0});
}

bool PlacementBound::raise() {
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

bool PlacementBound::raise_to_cut() {
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

bool PlacementBound::measure_distances() {
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

double PlacementBound::push(uint32_t node, double most) {
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

}  // namespace kintsugi::what_if

/// A described cluster for tests and benchmarks of whole servers lost: server 1 is dead, with `lost` chunks of as many
/// stripes, whose other chunks are on random distinct servers.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/runtime/random.h"
#include "erasure/policy.h"
#include "repair_manager/what_if/fluid_cluster.h"
#include "repair_manager/what_if/placement_bound.h"

namespace kintsugi::what_if {

struct FluidSettings {
  uint64_t servers = 83;
  std::string policy = "rs-12-4-1024k";
  uint64_t chunk_bytes = 64 << 20;
  double rate = 1.4e9 / 8;    ///< bytes/s of each link, each way
  uint32_t slow_percent = 0;  ///< of the servers: their links have a quarter of it
  uint64_t lost = 1;
};

inline constexpr ServerId kDead{1};

inline repair_manager::StripeView random_stripe(StripeId id, const FluidSettings& settings,
                                                runtime::Random& random) {
  const erasure::Policy policy = *erasure::Policy::parse(settings.policy);
  repair_manager::StripeView stripe{
      .id = id, .policy = settings.policy, .length = policy.k * settings.chunk_bytes};
  std::vector<uint64_t> holders{kDead.value};
  while (holders.size() < policy.chunks()) {
    const uint64_t server = random.below(settings.servers) + 1;
    if (std::ranges::find(holders, server) == holders.end()) holders.push_back(server);
  }
  std::swap(holders[0], holders[random.below(holders.size())]);
  for (uint32_t i = 0; i < policy.chunks(); ++i)
    stripe.chunks.push_back({.index = i,
                             .server = ServerId{holders[i]},
                             .length = settings.chunk_bytes,
                             .crc = i,
                             .available = ServerId{holders[i]} != kDead});
  return stripe;
}

inline FluidState lost_server(const FluidSettings& settings, runtime::Random& random) {
  FluidState state;
  state.link.bytes_per_second = settings.rate;
  for (uint64_t id = 1; id <= settings.servers; ++id) {
    const bool slow = (id * 7919) % 100 < settings.slow_percent;
    const auto rate = static_cast<uint64_t>(slow ? settings.rate / 4 : settings.rate);
    state.servers.push_back({.id = ServerId{id},
                             .rack = fmt::format("r{}", id),
                             .alive = ServerId{id} != kDead,
                             .free_bytes = uint64_t{1} << 44,
                             .up_bytes_per_second = rate,
                             .down_bytes_per_second = rate});
  }
  for (uint64_t s = 1; s <= settings.lost; ++s)
    state.stripes.push_back(random_stripe(StripeId{s}, settings, random));
  return state;
}

/// max(k * lost * C / what all links carry, C / B)
inline double bound_seconds(const FluidCluster& cluster, const FluidSettings& settings) {
  double total = 0;
  for (const repair_manager::ServerView& server : cluster.state().servers)
    if (server.alive) total += static_cast<double>(server.up_bytes_per_second);
  const uint32_t k = erasure::Policy::parse(settings.policy)->k;
  const double moved = static_cast<double>(k * settings.lost) * static_cast<double>(settings.chunk_bytes);
  return std::max(moved / total, static_cast<double>(settings.chunk_bytes) / settings.rate);
}

/// The time that the lost chunks' stripes allow at best.
inline double placement_bound_seconds(const FluidCluster& cluster, const FluidSettings& settings) {
  std::vector<PlacementLink> links;
  for (const repair_manager::ServerView& server : cluster.state().servers)
    links.push_back(server.alive ? PlacementLink{static_cast<double>(server.up_bytes_per_second),
                                                 static_cast<double>(server.down_bytes_per_second)}
                                 : PlacementLink{});
  std::vector<PlacementBound::Holders> holders;
  for (const repair_manager::StripeView& stripe : cluster.state().stripes) {
    PlacementBound::Holders& mine = holders.emplace_back();
    for (const repair_manager::ChunkView& chunk : stripe.chunks)
      if (chunk.available) mine.push_back(static_cast<uint32_t>(chunk.server.value - 1));
  }
  const uint32_t k = erasure::Policy::parse(settings.policy)->k;
  return PlacementBound(holders, k, static_cast<double>(settings.chunk_bytes), links).seconds();
}

}  // namespace kintsugi::what_if

#include "repair_manager/what_if/cluster.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "common/proto/meta.pb.h"
#include "repair_manager/view/wire_views.h"

namespace kintsugi::what_if {
namespace {

constexpr uint64_t kRoomForAll = uint64_t{1} << 60;

}  // namespace

Result<Cluster> described(const Description& description) {
  const uint32_t chunks = description.policy.chunks();
  if (description.servers > kMostServers || description.stripes > kMostStripes)
    return invalid(fmt::format("at most {} servers and {} stripes", kMostServers, kMostStripes));
  if (description.servers < chunks)
    return invalid(fmt::format("a stripe of {} needs {} servers, one for each chunk, and there are {}",
                               description.policy.name(), chunks, description.servers));
  if (description.racks > description.servers)
    return invalid(fmt::format("{} servers do not fill {} racks", description.servers, description.racks));
  Cluster cluster{.policy = description.policy,
                  .chunk_bytes = description.chunk_bytes,
                  .usual_rate = description.link_rate};
  const double mean = static_cast<double>(description.stripes) * chunks / description.servers;
  for (uint32_t i = 0; i < description.servers; ++i)
    cluster.servers.push_back(
        {.name = fmt::format("server-{}", i + 1),
         .rack = fmt::format("rack-{}", description.racks > 0 ? i % description.racks + 1 : i + 1),
         .up = description.link_rate,
         .down = description.link_rate,
         .chunks = static_cast<uint64_t>(std::llround(mean)),
         .free_bytes = kRoomForAll});
  return cluster;
}

Server live_server(const proto::ServerState& state) {
  const auto limited = [&state](uint64_t rate) {
    const uint64_t limit = state.repair_limit_bytes_per_second();
    return static_cast<double>(limit > 0 && rate > 0 ? std::min(rate, limit) : rate);
  };
  return {.name = state.name(),
          .rack = state.rack(),
          .up = limited(state.up_bytes_per_second()),
          .down = limited(state.down_bytes_per_second()),
          .users = static_cast<double>(state.user_bytes_per_second()),
          .chunks = state.chunks(),
          .free_bytes = state.free_bytes(),
          .alive = state.liveness() != proto::ServerState::DEAD,
          .draining = state.draining(),
          .slow = state.has_slow(),
          .id = ServerId{state.server_id()}};
}

std::vector<repair_manager::StripeView> live_stripes(const std::vector<proto::Stripe>& stripes) {
  std::vector<repair_manager::StripeView> views;
  for (const proto::Stripe& stripe : stripes)
    if (erasure::Policy::parse(stripe.policy())) views.push_back(repair_manager::stripe_view(stripe));
  return views;
}

}  // namespace kintsugi::what_if

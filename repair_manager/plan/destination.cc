#include "repair_manager/plan/destination.h"

#include <algorithm>
#include <optional>
#include <tuple>

namespace kintsugi::repair_manager {
namespace {

bool contains(std::span<const ServerId> servers, ServerId server) {
  return std::find(servers.begin(), servers.end(), server) != servers.end();
}

/// Servers that hold or will hold the stripe's chunks besides the lost one.
struct Holders {
  Holders(const SelectionInput& input, uint32_t lost, std::span<const ServerId> taken) {
    // The place of another lost chunk is not counted in its rack: that one gets a new place, too.
    for (const ChunkView& chunk : input.stripe.chunks)
      if (chunk.index != lost && chunk.server) add(input.servers, chunk.server, !input.is_lost(chunk.index));
    for (ServerId id : input.receiving)
      add(input.servers, id, true);
    for (ServerId id : taken)
      add(input.servers, id, true);
  }
  void add(const ServerTable& servers, ServerId id, bool count) {
    const std::optional<size_t> position = servers.position(id);
    if (!position) return;
    positions.push_back(*position);
    if (count) racks.push_back(servers.rack_of(*position));
  }
  bool holds(size_t position) const {
    return std::find(positions.begin(), positions.end(), position) != positions.end();
  }
  size_t chunks_in(uint32_t rack) const {
    return static_cast<size_t>(std::count(racks.begin(), racks.end(), rack));
  }
  std::vector<size_t> positions;
  std::vector<uint32_t> racks;  // racks of the chunks that are counted
};

bool has_space(const SelectionInput& input, uint32_t lost, const ServerView& server, const ServerLoad& load) {
  const uint64_t needed = input.stripe.chunks[lost].length + load.incoming_bytes;
  return server.free_bytes >= needed + kDestinationMarginBytes;
}

/// The number of chunks in one rack when the stripe is spread evenly.
size_t even_share(const SelectionInput& input) {
  const size_t racks = std::max<size_t>(1, input.servers.alive_racks());
  return (input.stripe.chunks.size() + racks - 1) / racks;
}

}  // namespace

Result<ServerId> select_destination(const SelectionInput& input, uint32_t lost_index,
                                    std::span<const ServerId> taken, std::span<const ServerId> barred) {
  const ChunkView& lost = input.stripe.chunks[lost_index];
  const Coefficients c = coefficients(input.policy.k, lost.length);
  const Holders holders(input, lost_index, taken);
  const size_t rack_limit = even_share(input);

  // Smallest is best: tier, chunks of the stripe too many in the rack, load, running repairs, free space.
  using Key = std::tuple<int, size_t, double, uint32_t, uint64_t>;
  std::optional<std::pair<Key, ServerId>> best;
  bool some_busy = false;
  const size_t count = input.servers.all().size();
  size_t at = count == 0 ? 0 : std::hash<ChunkId>{}({input.stripe.id, lost_index}) % count;
  size_t possible = 0;
  for (size_t met = 0; met < count; ++met, at = (at + input.servers.stride()) % count) {
    if (possible >= kDestinationLongSample) break;
    if (possible >= kDestinationSample && std::get<0>(best->first) == 0) break;
    const ServerView& server = input.servers.all()[at];
    if (!server.alive || server.draining || holders.holds(at)) continue;
    const bool own = server.id == lost.server;
    if (own && lost.available) continue;
    const ServerLoad load = input.slots.load(server.id);
    if (!has_space(input, lost_index, server, load)) continue;
    if (!input.slots.can_receive(load, input.urgent) || contains(barred, server.id)) {
      some_busy = true;
      continue;
    }
    ++possible;
    const size_t in_rack = holders.chunks_in(input.servers.rack_of(at)) + 1;
    const size_t excess = in_rack > rack_limit ? in_rack - rack_limit : 0;
    const int tier = contains(input.excluded, server.id) ? 3 : own ? 1 : excess > 0 ? 2 : 0;
    const double user_megabytes = static_cast<double>(server.user_bytes_per_second) / kMegabyte;
    double cost = -destination_weight(c, load.as_destination, user_megabytes) +
                  input.servers.busy_penalty(server) + input.servers.slow_penalty(server);
    if (input.suspects.contains(server.id)) cost += kAvoidPenalty;
    const Key key{tier, excess, cost, load.repairs(), ~server.free_bytes};
    if (!best || key < best->first) best = {key, server.id};
  }
  if (best) return best->second;
  if (some_busy) return Status{Code::kLimitExceeded, "destinations are busy"};
  return Status{Code::kNoSpace, "no server that is alive, has the space and holds no chunk of the stripe"};
}

Status check_destination(const SelectionInput& input, uint32_t lost_index, ServerId wanted,
                         std::span<const ServerId> taken, bool keep_racks) {
  const std::optional<size_t> position = input.servers.position(wanted);
  if (!position) return {Code::kInvalidArgument, fmt::format("no such server: {}", wanted)};
  const ServerView& server = input.servers.all()[*position];
  const std::string name = input.servers.name_of(wanted);
  const ChunkView& lost = input.stripe.chunks[lost_index];
  const Holders holders(input, lost_index, taken);
  if (holders.holds(*position) || (lost.server == wanted && lost.available))
    return {Code::kInvalidArgument, fmt::format("server {} holds a chunk of the stripe", name)};
  if (!server.alive) return {Code::kUnavailable, fmt::format("server {} is not alive", name)};
  if (server.draining) return {Code::kUnavailable, fmt::format("server {} is being drained", name)};
  const ServerLoad load = input.slots.load(wanted);
  if (!has_space(input, lost_index, server, load))
    return {Code::kNoSpace, fmt::format("server {} has too little space", name)};
  if (!input.slots.can_receive(load, input.urgent))
    return {Code::kLimitExceeded, fmt::format("server {} is busy", name)};
  if (!keep_racks) return {};
  size_t limit = even_share(input);
  const std::optional<size_t> now = lost.available ? input.servers.position(lost.server) : std::nullopt;
  if (now) limit = std::max(limit, holders.chunks_in(input.servers.rack_of(*now)) + 1);
  if (holders.chunks_in(input.servers.rack_of(*position)) + 1 > limit)
    return {Code::kNoSpace, fmt::format("the rack of server {} has its share of the stripe", name)};
  return {};
}

}  // namespace kintsugi::repair_manager

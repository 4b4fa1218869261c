#include "repair_manager/selection.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <tuple>

#include "repair_manager/cost_model.h"

namespace kintsugi::repair_manager {
namespace {

constexpr double kMegabyte = 1 << 20;
constexpr double kSuspectPenalty = 4;  // as if it took part in so many more repairs

bool contains(std::span<const ServerId> servers, ServerId server) {
  return std::find(servers.begin(), servers.end(), server) != servers.end();
}

bool is_lost(const SelectionInput& input, uint32_t index) {
  return std::find(input.lost.begin(), input.lost.end(), index) != input.lost.end();
}

double user_megabytes(const ServerView& server) {
  return static_cast<double>(server.user_bytes_per_second) / kMegabyte;
}

/// Where the stripe's chunks besides the lost one are, running repairs included.
struct Holders {
  explicit Holders(const SelectionInput& input)
      : holds(input.servers.all().size()), chunks_in_rack(input.servers.racks()) {
    for (const ChunkView& chunk : input.stripe.chunks)
      if (chunk.index != input.lost.front() && chunk.server) add(input.servers, chunk.server);
    for (ServerId id : input.receiving)
      add(input.servers, id);
  }
  void add(const ServerTable& servers, ServerId id) {
    const std::optional<size_t> position = servers.position(id);
    if (!position) return;
    holds[*position] = true;
    ++chunks_in_rack[servers.rack_of(*position)];
  }
  std::vector<uint8_t> holds;  // by position in the table
  std::vector<uint32_t> chunks_in_rack;
};

bool holds_another_chunk(const SelectionInput& input, ServerId server) {
  if (contains(input.receiving, server)) return true;
  for (const ChunkView& chunk : input.stripe.chunks)
    if (chunk.index != input.lost.front() && chunk.server == server) return true;
  return false;
}

bool has_space(const SelectionInput& input, const ServerView& server, const ServerLoad& load) {
  const uint64_t needed = input.stripe.chunks[input.lost.front()].length + load.incoming_bytes;
  return server.free_bytes >= needed + kDestinationMarginBytes;
}

}  // namespace

Coefficients coefficients(uint32_t k, uint64_t chunk_bytes) {
  const double megabytes = std::max(static_cast<double>(chunk_bytes) / kMegabyte, 1e-3);
  const double log2_k = std::max<double>(1, std::bit_width(k - 1));
  Coefficients c;
  c.a1 = kCacheSaving * ppr_timesteps(k) / kNetworkShare;
  c.a3 = c.b2 = 1 / (megabytes * log2_k);
  return c;
}

double source_weight(const Coefficients& c, bool cached, uint32_t reconstructions, double user_megabytes) {
  return (cached ? c.a1 : 0) - c.a2 * reconstructions - c.a3 * user_megabytes;
}

double destination_weight(const Coefficients& c, uint32_t repair_destinations, double user_megabytes) {
  return -(c.b1 * repair_destinations + c.b2 * user_megabytes);
}

ServerTable::ServerTable(std::vector<ServerView> servers) : servers_(std::move(servers)) {
  std::sort(servers_.begin(), servers_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  std::unordered_map<std::string_view, uint32_t> numbers;
  std::set<uint32_t> alive;
  for (size_t i = 0; i < servers_.size(); ++i) {
    by_id_.emplace(servers_[i].id, i);
    racks_.push_back(numbers.emplace(servers_[i].rack, numbers.size()).first->second);
    if (servers_[i].alive) alive.insert(racks_.back());
  }
  rack_count_ = numbers.size();
  alive_racks_ = alive.size();
}

std::optional<size_t> ServerTable::position(ServerId id) const {
  const auto at = by_id_.find(id);
  return at == by_id_.end() ? std::nullopt : std::optional(at->second);
}

const ServerView* ServerTable::find(ServerId id) const {
  const std::optional<size_t> at = position(id);
  return at ? &servers_[*at] : nullptr;
}

bool is_empty_data_chunk(const ChunkView& chunk, uint32_t k) {
  return chunk.length == 0 && chunk.index < k;
}

uint32_t usable_chunks(const StripeView& stripe, uint32_t k, uint32_t lost) {
  return static_cast<uint32_t>(
      std::count_if(stripe.chunks.begin(), stripe.chunks.end(), [&](const ChunkView& chunk) {
        return chunk.index != lost && (chunk.available || is_empty_data_chunk(chunk, k));
      }));
}

Result<std::vector<uint32_t>> select_helpers(const SelectionInput& input) {
  struct Candidate {
    uint32_t index;
    int tier;  // lower is better
    double weight;
  };
  const Coefficients c = coefficients(input.policy.k, input.stripe.chunks[input.lost.front()].length);
  std::vector<Candidate> candidates;
  uint32_t busy = 0;
  for (const ChunkView& chunk : input.stripe.chunks) {
    if (is_lost(input, chunk.index)) continue;
    if (is_empty_data_chunk(chunk, input.policy.k)) {
      candidates.push_back({chunk.index, 0, std::numeric_limits<double>::max()});
      continue;
    }
    const ServerView* server = chunk.available ? input.servers.find(chunk.server) : nullptr;
    if (server == nullptr) continue;
    if (!server->alive || !input.slots.can_help(chunk.server)) {  // suspect: soon alive again or dead
      ++busy;
      continue;
    }
    double weight =
        source_weight(c, chunk.cached, input.slots.load(chunk.server).repairs(), user_megabytes(*server));
    if (input.suspects.contains(chunk.server)) weight -= kSuspectPenalty;
    candidates.push_back({chunk.index, contains(input.excluded, chunk.server) ? 2 : 1, weight});
  }
  if (candidates.size() < input.policy.k) {
    if (candidates.size() + busy >= input.policy.k)
      return Status{Code::kLimitExceeded, "helpers are busy or suspect"};
    return Status{Code::kUnavailable,
                  fmt::format("{} of {} helper chunks available", candidates.size() + busy, input.policy.k)};
  }
  // Nobody knows which helper was bad: leave out as many as can be spared, others each time.
  const size_t spare = candidates.size() - input.policy.k;
  for (size_t i = 0; input.rotation > 0 && i < spare; ++i)
    candidates[((input.rotation - 1) * spare + i) % candidates.size()].tier = 2;
  std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.tier, -a.weight) < std::tuple(b.tier, -b.weight);
  });
  std::vector<uint32_t> helpers;
  for (size_t i = 0; i < input.policy.k; ++i)
    helpers.push_back(candidates[i].index);
  return helpers;
}

Result<ServerId> select_destination(const SelectionInput& input) {
  const ChunkView& lost = input.stripe.chunks[input.lost.front()];
  const Coefficients c = coefficients(input.policy.k, lost.length);
  const Holders holders(input);
  const size_t rack_count = std::max<size_t>(1, input.servers.alive_racks());
  const size_t rack_limit = (input.stripe.chunks.size() + rack_count - 1) / rack_count;

  // Smallest is best: tier, chunks of the stripe too many in the rack, load, running repairs, free space.
  using Key = std::tuple<int, size_t, double, uint32_t, uint64_t>;
  std::optional<std::pair<Key, ServerId>> best;
  bool some_busy = false;
  for (size_t i = 0; i < input.servers.all().size(); ++i) {
    const ServerView& server = input.servers.all()[i];
    if (!server.alive || holders.holds[i]) continue;
    const bool own = server.id == lost.server;
    if (own && lost.available) continue;
    const ServerLoad load = input.slots.load(server.id);
    if (!has_space(input, server, load)) continue;
    if (!input.slots.can_receive(load) || contains(input.barred, server.id)) {
      some_busy = true;
      continue;
    }
    const size_t in_rack = holders.chunks_in_rack[input.servers.rack_of(i)] + 1;
    const size_t excess = in_rack > rack_limit ? in_rack - rack_limit : 0;
    const int tier = contains(input.excluded, server.id) ? 3 : own ? 1 : excess > 0 ? 2 : 0;
    double cost = -destination_weight(c, load.as_destination, user_megabytes(server));
    if (input.suspects.contains(server.id)) cost += kSuspectPenalty;
    const Key key{tier, excess, cost, load.repairs(), ~server.free_bytes};
    if (!best || key < best->first) best = {key, server.id};
  }
  if (best) return best->second;
  if (some_busy) return Status{Code::kLimitExceeded, "destinations are busy"};
  return Status{Code::kNoSpace, "no server that is alive, has the space and holds no chunk of the stripe"};
}

Status check_destination(const SelectionInput& input, ServerId wanted) {
  const ServerView* server = input.servers.find(wanted);
  if (server == nullptr) return {Code::kInvalidArgument, fmt::format("no such server: {}", wanted)};
  const ChunkView& lost = input.stripe.chunks[input.lost.front()];
  if (holds_another_chunk(input, wanted) || (lost.server == wanted && lost.available))
    return {Code::kInvalidArgument, fmt::format("server {} holds a chunk of the stripe", wanted)};
  if (!server->alive) return {Code::kUnavailable, fmt::format("server {} is not alive", wanted)};
  if (!has_space(input, *server, input.slots.load(wanted)))
    return {Code::kNoSpace, fmt::format("server {} has too little space", wanted)};
  if (!input.slots.can_receive(wanted))
    return {Code::kLimitExceeded, fmt::format("server {} is busy", wanted)};
  return {};
}

}  // namespace kintsugi::repair_manager

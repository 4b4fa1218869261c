#include "repair_manager/plan/selection.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "erasure/code.h"
#include "repair_manager/trees/cost_model.h"

namespace kintsugi::repair_manager {
namespace {

bool enough(const SelectionInput& input, std::span<const HelperCandidate> candidates,
            std::span<const uint32_t> busy) {
  if (input.policy.family != erasure::Policy::Family::kLocal)
    return candidates.size() + busy.size() >= input.policy.k;
  std::vector<uint32_t> available(busy.begin(), busy.end());
  for (const HelperCandidate& candidate : candidates)
    available.push_back(candidate.index);
  return erasure::Code::get(input.policy)->repairable(input.lost, available);
}

HelperCandidate weigh(const SelectionInput& input, const Coefficients& c, const ChunkView& chunk,
                      const ServerView& server, const ServerLoad& load) {
  const bool very_hot = chunk.heat >= kVeryHot;
  double penalty = input.servers.busy_penalty(server);
  if (very_hot) penalty += kAvoidPenalty;
  if (input.suspects.contains(server.id)) penalty += kAvoidPenalty;
  const double weight = source_weight(c, chunk.cached && !very_hot, load.repairs(),
                                      static_cast<double>(server.user_bytes_per_second) / kMegabyte);
  const auto excluded = std::find(input.excluded.begin(), input.excluded.end(), server.id);
  return {
      .index = chunk.index,
      .server = &server,
      .tier = excluded == input.excluded.end() ? HelperCandidate::Tier::kGood : HelperCandidate::Tier::kLast,
      .weight = weight - penalty - input.servers.slow_penalty(server),
      .avoid = penalty >= kAvoidPenalty / 2};
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

bool SelectionInput::is_lost(uint32_t index) const {
  return std::find(lost.begin(), lost.end(), index) != lost.end();
}

bool is_empty_data_chunk(const ChunkView& chunk, uint32_t k) {
  return chunk.length == 0 && chunk.index < k;
}

Result<std::vector<HelperCandidate>> rank_helpers(const SelectionInput& input, Busy take_busy) {
  using Tier = HelperCandidate::Tier;
  const Coefficients c = coefficients(input.policy.k, input.stripe.chunks[input.lost.front()].length);
  std::vector<HelperCandidate> candidates;
  std::vector<uint32_t> busy;
  candidates.reserve(input.stripe.chunks.size());
  for (const ChunkView& chunk : input.stripe.chunks) {
    if (input.is_lost(chunk.index)) continue;
    if (is_empty_data_chunk(chunk, input.policy.k)) {
      candidates.push_back({.index = chunk.index, .tier = Tier::kFree});
      continue;
    }
    const ServerView* server = chunk.available ? input.servers.find(chunk.server) : nullptr;
    if (server == nullptr) continue;
    const ServerLoad load = input.slots.load(chunk.server);
    const bool at_limit = !input.slots.can_help(load, input.urgent);
    // A suspect server will soon be alive again or dead.
    if (!server->alive || (at_limit && take_busy == Busy::kRefuse)) {
      busy.push_back(chunk.index);
      continue;
    }
    candidates.push_back(weigh(input, c, chunk, *server, load));
    if (at_limit) candidates.back().tier = Tier::kLast;
  }
  if (!enough(input, candidates, {})) {
    if (enough(input, candidates, busy)) return Status{Code::kLimitExceeded, "helpers are busy or suspect"};
    return Status{Code::kUnavailable,
                  fmt::format("{} helper chunks available, not enough", candidates.size() + busy.size())};
  }
  // Nobody knows which helper was bad: leave out as many as can be spared, others each time.
  const size_t spare = candidates.size() - std::min<size_t>(candidates.size(), input.policy.k);
  for (size_t i = 0; input.rotation > 0 && i < spare; ++i)
    candidates[((input.rotation - 1) * spare + i) % candidates.size()].tier = Tier::kLast;
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const HelperCandidate& a, const HelperCandidate& b) {
                     return std::tuple(a.tier, -a.weight) < std::tuple(b.tier, -b.weight);
                   });
  return candidates;
}

}  // namespace kintsugi::repair_manager

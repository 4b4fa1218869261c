#include "repair_manager/joint/joint_window.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "erasure/policy.h"
#include "repair_manager/plan/destination.h"

namespace kintsugi::repair_manager {
namespace {

constexpr double kLeastShare = 0.1;  // repairs count on this share of a link, even if users take more of it

double repair_rate(const ServerView& server, const LinkModel& link) {
  const auto or_typical = [&](uint64_t rate) {
    return rate == 0 ? link.bytes_per_second : static_cast<double>(rate);
  };
  const double rate =
      std::min(or_typical(server.up_bytes_per_second), or_typical(server.down_bytes_per_second));
  const double left = std::max(rate - static_cast<double>(server.user_bytes_per_second), rate * kLeastShare);
  const auto limit = static_cast<double>(server.repair_limit_bytes_per_second);
  return limit > 0 ? std::min(left, limit) : left;
}

uint32_t parts(double chunks) {
  return static_cast<uint32_t>(std::ceil(chunks * kChunkParts - 1e-6));
}

/// Writes the chains into the wishes as trees. `indexes` are the chunks of the candidates.
void wish_chains(std::span<const JointChain> chains, std::span<const uint32_t> indexes, PlanWishes& wishes) {
  std::map<uint32_t, size_t> positions;  // candidate -> its position in wishes.helpers
  for (const JointChain& chain : chains) {
    SliceTree& tree = wishes.trees.trees.emplace_back();
    for (uint32_t candidate : chain.helpers | std::views::reverse) {
      if (positions.emplace(candidate, wishes.helpers.size()).second)
        wishes.helpers.push_back(indexes[candidate]);
      TreeNode node{.helper = positions.at(candidate), .children = std::move(tree.children)};
      tree.children.clear();
      tree.children.push_back(std::move(node));
    }
    if (chains.size() == 1) continue;
    wishes.trees.period = kChunkParts;
    tree.slice_mask = chain.parts;
  }
}

}  // namespace

void JointWindow::trim(TimePoint now) {
  if (known_.size() > 2 * entries())
    std::erase_if(known_, [now](const auto& known) { return known.second.until <= now; });
  if (known_.size() > 4 * entries()) known_.clear();
}

bool JointWindow::fits(const QueueEntry& entry, TimePoint now) {
  if (entry.kind != WorkKind::kRepair || entry.attempt > 0) return false;
  Known& known = known_[entry.chunk];
  if (known.until <= now || known.membership != planner_.membership()) {
    known = look_up(entry.chunk);
    known.until = now + kFresh;
  }
  return known.fits;
}

JointWindow::Known JointWindow::look_up(ChunkId chunk) const {
  Known known{.membership = planner_.membership()};
  const std::optional<StripeView> stripe = view_.stripe(chunk.stripe);
  if (!stripe || chunk.index >= stripe->chunks.size()) return known;
  const Result<erasure::Policy> policy = erasure::Policy::parse(stripe->policy);
  if (!policy || policy->family != erasure::Policy::Family::kReedSolomon) return known;
  const ServerTable& servers = planner_.servers();
  known.length = stripe->chunks[chunk.index].length;
  known.repair.needed = policy->k;
  const size_t racks = std::max<size_t>(1, servers.alive_racks());
  known.rack_limit = static_cast<uint32_t>((stripe->chunks.size() + racks - 1) / racks);
  for (const ChunkView& other : stripe->chunks) {
    const std::optional<size_t> position = servers.position(other.server);
    if (position) known.holders.push_back(static_cast<uint32_t>(*position));
    if (other.index == chunk.index) continue;
    if (position) ++known.chunks_in_rack[servers.rack_of(*position)];
    if (is_empty_data_chunk(other, policy->k) && known.repair.needed > 0) {
      --known.repair.needed;
      known.empty.push_back(other.index);
    } else if (other.available && position && !planner_.is_suspect(other.server)) {
      known.repair.candidates.push_back(static_cast<uint32_t>(*position));
      known.indexes.push_back(other.index);
    }
  }
  std::ranges::sort(known.holders);
  known.fits = known.repair.needed > 0 && known.repair.candidates.size() >= known.repair.needed;
  return known;
}

std::vector<JointServer> JointWindow::servers() const {
  std::vector<JointServer> servers;
  for (const ServerView& view : planner_.servers().all()) {
    const ServerLoad load = planner_.slots().load(view.id);
    servers.push_back({.can_help = view.alive,
                       .can_receive = view.alive && !view.draining && !planner_.is_suspect(view.id) &&
                                      planner_.slots().can_receive(load),
                       .rate = repair_rate(view, options_.link),
                       .helping = parts(load.helper_share),
                       .receiving = parts(load.helper_share + load.as_destination)});
  }
  return servers;
}

bool JointWindow::may_receive(const Known& known, ChunkId chunk, uint32_t server) const {
  const ServerTable& servers = planner_.servers();
  const auto in_rack = known.chunks_in_rack.find(servers.rack_of(server));
  if (in_rack != known.chunks_in_rack.end() && in_rack->second >= known.rack_limit) return false;
  if (std::ranges::binary_search(known.holders, server)) return false;
  const ServerView& view = servers.all()[server];
  const uint64_t needed = known.length + planner_.slots().load(view.id).incoming_bytes;
  return view.free_bytes >= needed + kDestinationMarginBytes && !view_.deletion_pending(chunk, view.id);
}

/// Returns by what factor a split makes a repair slower: a chain that carries a part moves at its share of the rate,
/// and its pipeline takes that much longer to fill.
double JointWindow::split_cost(const Known& known) const {
  const LinkRate usual = planner_.servers().usual_link();
  const double rate = usual.up > 0 ? usual.up : options_.link.bytes_per_second;
  const TreeLoad load{.sum_bytes = std::max<uint64_t>(1, known.length)};
  const auto took = [&](double share) {
    const uint64_t slice = options_.slice_bytes > 0
                               ? options_.slice_bytes
                               : default_slice_bytes(known.repair.needed, load, rate * share, options_.link);
    const auto forwarded = static_cast<double>(std::min(slice, kForwardBytes));
    return 1 + (known.repair.needed - 1) * forwarded / share / static_cast<double>(load.sum_bytes);
  };
  return took(1.0 / kChunkParts) / took(1);
}

JointLimits JointWindow::limits(size_t waiting, const Known& like) const {
  const uint32_t most = planner_.slots().limit();
  return {.level = std::max(1u, most / 2), .most = most, .waiting = waiting, .split_cost = split_cost(like)};
}

bool JointWindow::could_place(ChunkId chunk, size_t waiting) {
  const auto known = known_.find(chunk);
  if (known == known_.end()) return true;  // schedule() has just placed the chunk
  if (known->second.could_place) return *known->second.could_place;
  std::vector<JointServer> idle = servers();
  for (size_t i = 0; i < idle.size(); ++i) {
    const ServerView& view = planner_.servers().all()[i];
    idle[i].can_receive = view.alive && !view.draining && !planner_.is_suspect(view.id);
    idle[i].helping = idle[i].receiving = 0;
  }
  const auto allowed = [&](size_t, uint32_t server) { return may_receive(known->second, chunk, server); };
  const JointRepair* const repair = &known->second.repair;
  known->second.could_place =
      !schedule_jointly(idle, {&repair, 1}, limits(waiting, known->second), allowed).empty();
  return *known->second.could_place;
}

std::vector<JointStart> JointWindow::schedule(std::span<const QueueEntry> queued, size_t waiting) {
  if (queued.empty()) return {};
  std::vector<const Known*> pictures;
  std::vector<const JointRepair*> repairs;
  for (const QueueEntry& entry : queued) {
    pictures.push_back(&known_.at(entry.chunk));
    repairs.push_back(&pictures.back()->repair);
  }
  const JointLimits limits = this->limits(waiting, *pictures.front());
  const std::vector<JointServer> states = servers();
  const auto allowed = [&](size_t repair, uint32_t server) {
    return may_receive(*pictures[repair], queued[repair].chunk, server);
  };
  std::vector<JointStart> starts;
  for (const JointChoice& choice : schedule_jointly(states, repairs, limits, allowed)) {
    const QueueEntry& entry = queued[choice.repair];
    const Known& known = *pictures[choice.repair];
    PlanWishes wishes{.slice_bytes = options_.slice_bytes,
                      .destination = planner_.servers().all()[choice.destination].id,
                      .keep_racks = true};
    wish_chains(choice.chains, known.indexes, wishes);
    wishes.helpers.insert(wishes.helpers.end(), known.empty.begin(), known.empty.end());
    starts.push_back({.entry = entry, .wishes = std::move(wishes)});
    known_.erase(entry.chunk);
  }
  return starts;
}

}  // namespace kintsugi::repair_manager

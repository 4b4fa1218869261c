#include "repair_manager/joint/joint_matching.h"

#include <algorithm>

namespace kintsugi::repair_manager {
namespace {

constexpr size_t kNearby = 64;  // servers that one search visits, unless the parts have the smallest size

}  // namespace

Matching::Matching(JointRepairs repairs, std::vector<HelperRoom> servers)
    : repairs_(repairs),
      servers_(std::move(servers)),
      helped_(servers_.size()),
      parts_(repairs.size()),
      seen_(servers_.size()),
      from_(servers_.size()),
      by_(servers_.size()) {}

bool Matching::let_in(size_t index, uint32_t smallest) {
  const auto repair = static_cast<uint32_t>(index);
  const JointRepair& wanted = *repairs_[index];
  parts_[index].assign(wanted.candidates.size(), 0);
  steps_.clear();
  uint32_t left = wanted.needed * kChunkParts;
  for (uint32_t server : by_load(repair)) {
    if (left == 0) break;
    if (room(server) < kChunkParts) continue;
    steps_.push_back({repair, kNobody, server, kChunkParts});
    move(steps_.back());
    left -= kChunkParts;
  }
  for (uint32_t grain = kChunkParts; left > 0;) {
    // Most repairs find whole chunks among servers nearby. Only the smallest parts are looked for on all servers.
    const size_t most_looks = grain > smallest ? kNearby : servers_.size();
    const uint32_t found = left < grain ? 0 : augment(repair, left, grain, most_looks);
    left -= found;
    if (found > 0) continue;
    grain /= 2;
    if (grain >= smallest) continue;
    for (; !steps_.empty(); steps_.pop_back())
      move({steps_.back().repair, steps_.back().to, steps_.back().from, steps_.back().parts});
    return false;
  }
  return true;
}

void Matching::set_capacities(std::span<const uint32_t> capacities) {
  for (size_t i = 0; i < servers_.size(); ++i)
    servers_[i].capacity = capacities[i];
}

uint32_t Matching::room_of(size_t repair, uint32_t most) const {
  uint32_t parts = 0;
  for (uint32_t server : repairs_[repair]->candidates)
    parts += std::min(most, room(server));
  return parts;
}

uint32_t& Matching::parts_of(uint32_t repair, uint32_t server) {
  const std::vector<uint32_t>& candidates = repairs_[repair]->candidates;
  return parts_[repair][static_cast<size_t>(std::ranges::find(candidates, server) - candidates.begin())];
}

void Matching::give(uint32_t repair, uint32_t server, uint32_t parts) {
  uint32_t& has = parts_of(repair, server);
  if (has == 0) helped_[server].push_back(repair);
  has += parts;
  servers_[server].load += parts;
}

void Matching::take(uint32_t repair, uint32_t server, uint32_t parts) {
  uint32_t& has = parts_of(repair, server);
  has -= parts;
  servers_[server].load -= parts;
  if (has == 0) std::erase(helped_[server], repair);
}

void Matching::move(const Step& step) {
  if (step.from != kNobody) take(step.repair, step.from, step.parts);
  if (step.to != kNobody) give(step.repair, step.to, step.parts);
}

/// Returns the candidates of the repair, the least loaded first.
std::vector<uint32_t> Matching::by_load(uint32_t repair) const {
  std::vector<uint32_t> servers = repairs_[repair]->candidates;
  std::ranges::stable_sort(servers, {}, [&](uint32_t s) {
    return static_cast<double>(servers_[s].load) / std::max(1u, servers_[s].capacity);
  });
  return servers;
}

/// Finds up to `most` more parts for `repair` by the shortest chain of moves that ends on a server with room; among
/// those, the one whose first server is least loaded. Returns how many it found, 0 if there is no such chain.
uint32_t Matching::augment(uint32_t repair, uint32_t most, uint32_t grain, size_t most_looks) {
  ++search_;
  frontier_.clear();
  for (uint32_t server : by_load(repair))
    if (reach(server, kNobody, repair, grain)) return apply(server, most);
  for (size_t looks = 0; !frontier_.empty() && looks < most_looks; ++looks) {
    const uint32_t server = frontier_.front();
    frontier_.pop_front();
    for (uint32_t other : helped_[server]) {
      if (parts_of(other, server) < grain) continue;
      for (uint32_t candidate : repairs_[other]->candidates)
        if (reach(candidate, server, other, grain)) return apply(candidate, most);
    }
  }
  return 0;
}

/// Visits a server by which repair `by` could be helped instead of by `from`. Returns true if it has room for that.
bool Matching::reach(uint32_t server, uint32_t from, uint32_t by, uint32_t grain) {
  if (seen_[server] == search_) return false;
  if (parts_of(by, server) + grain > kChunkParts) return false;
  seen_[server] = search_;
  from_[server] = from;
  by_[server] = by;
  if (room(server) >= grain) return true;
  if (!helped_[server].empty()) frontier_.push_back(server);
  return false;
}

uint32_t Matching::apply(uint32_t end, uint32_t most) {
  uint32_t parts = std::min(most, room(end));
  for (uint32_t to = end; to != kNobody; to = from_[to]) {
    parts = std::min(parts, kChunkParts - parts_of(by_[to], to));
    if (from_[to] != kNobody) parts = std::min(parts, parts_of(by_[to], from_[to]));
  }
  for (uint32_t to = end; to != kNobody; to = from_[to]) {
    steps_.push_back({by_[to], from_[to], to, parts});
    move(steps_.back());
  }
  return parts;
}

}  // namespace kintsugi::repair_manager

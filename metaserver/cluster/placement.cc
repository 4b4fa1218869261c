#include "metaserver/cluster/placement.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace kintsugi::metaserver {
namespace {

/// Draws one of `eligible`, which are indices, in proportion to free bytes.
size_t draw(std::span<const Candidate> candidates, std::span<const size_t> eligible,
            runtime::Random& random) {
  // A ticket is a MiB: the sum of exabytes does not overflow, and a full server can still be drawn.
  constexpr uint64_t kUnit = 1 << 20;
  uint64_t tickets = 0;
  for (size_t i : eligible)
    tickets += candidates[i].free_bytes / kUnit + 1;
  uint64_t drawn = random.below(tickets);
  for (size_t i : eligible) {
    const uint64_t own = candidates[i].free_bytes / kUnit + 1;
    if (drawn < own) return i;
    drawn -= own;
  }
  return eligible.back();
}

using RackCounts = std::map<std::string_view, size_t>;

/// Moves `count` of `left` to `chosen`, and counts their racks.
void choose(size_t count, std::span<const Candidate> candidates, std::vector<size_t> left,
            RackCounts& chunks_in_rack, std::vector<ServerId>& chosen, runtime::Random& random) {
  while (chosen.size() < count) {
    size_t fewest = SIZE_MAX;
    for (size_t i : left)
      fewest = std::min(fewest, chunks_in_rack[candidates[i].rack]);
    std::vector<size_t> eligible;
    for (size_t i : left) {
      if (chunks_in_rack[candidates[i].rack] == fewest) eligible.push_back(i);
    }
    const bool all_slow = std::ranges::all_of(eligible, [&](size_t i) { return candidates[i].slow; });
    if (!all_slow) std::erase_if(eligible, [&](size_t i) { return candidates[i].slow; });
    const size_t picked = draw(candidates, eligible, random);
    chosen.push_back(candidates[picked].id);
    ++chunks_in_rack[candidates[picked].rack];
    std::erase(left, picked);
  }
}

size_t most_in_a_rack(const RackCounts& chunks_in_rack) {
  size_t most = 0;
  for (const auto& [rack, count] : chunks_in_rack)
    most = std::max(most, count);
  return most;
}

}  // namespace

std::vector<ServerId> choose_servers(size_t count, std::span<const Candidate> candidates,
                                     std::span<const Candidate> taken, runtime::Random& random) {
  RackCounts taken_in_rack;
  for (const Candidate& server : taken)
    ++taken_in_rack[server.rack];
  std::vector<size_t> left, fast;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto same = [&](const Candidate& other) { return other.id == candidates[i].id; };
    if (std::ranges::any_of(taken, same)) continue;
    left.push_back(i);
    if (!candidates[i].slow) fast.push_back(i);
  }
  if (left.size() < count) return {};

  RackCounts of_all = taken_in_rack;
  std::vector<ServerId> chosen;
  choose(count, candidates, left, of_all, chosen, random);
  if (fast.size() < count || fast.size() == left.size()) return chosen;
  RackCounts of_fast = taken_in_rack;
  std::vector<ServerId> without_slow;
  choose(count, candidates, fast, of_fast, without_slow, random);
  return most_in_a_rack(of_fast) <= most_in_a_rack(of_all) ? without_slow : chosen;
}

Status too_few_servers(const erasure::Policy& chosen, const erasure::Policy& policy,
                       const UsableServers& usable) {
  std::string why = policy == chosen ? fmt::format("policy {}", chosen.name())
                                     : fmt::format("policy {} keeps {} copies of a small file, for which it",
                                                   chosen.name(), policy.chunks());
  why += fmt::format(" needs {} servers; {} are alive", policy.chunks(), usable.alive);
  std::string separator = ", of which ";
  const auto add = [&](size_t count, std::string_view what) {
    if (count == 0) return;
    why += fmt::format("{}{} {}", separator, count, what);
    separator = ", ";
  };
  add(usable.full,
      fmt::format("have less than {:.0f} MiB free", static_cast<double>(usable.needed_bytes) / (1 << 20)));
  add(usable.draining, "are being drained");
  add(usable.excluded, "failed for this client lately");
  const bool space = usable.servers.size() + usable.full >= policy.chunks();
  return {space ? Code::kNoSpace : Code::kUnavailable, std::move(why)};
}

}  // namespace kintsugi::metaserver

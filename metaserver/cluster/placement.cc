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

}  // namespace

std::vector<ServerId> choose_servers(size_t count, std::span<const Candidate> candidates,
                                     std::span<const Candidate> taken, runtime::Random& random) {
  std::map<std::string_view, size_t> chunks_in_rack;
  for (const Candidate& server : taken)
    ++chunks_in_rack[server.rack];
  std::vector<size_t> left;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const auto same = [&](const Candidate& other) { return other.id == candidates[i].id; };
    if (std::none_of(taken.begin(), taken.end(), same)) left.push_back(i);
  }
  if (left.size() < count) return {};

  std::vector<ServerId> chosen;
  while (chosen.size() < count) {
    size_t fewest = SIZE_MAX;
    for (size_t i : left)
      fewest = std::min(fewest, chunks_in_rack[candidates[i].rack]);
    std::vector<size_t> eligible;
    for (size_t i : left) {
      if (chunks_in_rack[candidates[i].rack] == fewest) eligible.push_back(i);
    }
    const size_t picked = draw(candidates, eligible, random);
    chosen.push_back(candidates[picked].id);
    ++chunks_in_rack[candidates[picked].rack];
    std::erase(left, picked);
  }
  return chosen;
}

Status too_few_servers(const erasure::Policy& policy, const UsableServers& usable) {
  std::string why =
      fmt::format("policy {} needs {} servers; {} are alive", policy.name(), policy.chunks(), usable.alive);
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

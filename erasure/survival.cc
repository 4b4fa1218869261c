#include "erasure/survival.h"

#include <algorithm>
#include <bit>

#include "common/base/math.h"
#include "erasure/chunk_mask.h"

namespace kintsugi::erasure {

Survival::Survival(const Policy& policy) : policy_(policy) {
  const uint32_t members = policy.local > 0 ? policy.k / policy.local : 0;
  for (uint32_t group = 0; group < policy.local; ++group) {
    const uint32_t data = ((uint32_t{1} << members) - 1) << group * members;
    groups_.push_back(data | uint32_t{1} << (policy.k + group));
  }
}

bool Survival::has_local_group(uint32_t chunk, uint32_t available) const {
  const uint32_t group = local_group(chunk);
  return group != 0 && (group & ~available & ~(uint32_t{1} << chunk)) == 0;
}

uint32_t Survival::local_group(uint32_t chunk) const {
  for (const uint32_t group : groups_) {
    if (contains(group, chunk)) return group;
  }
  return 0;
}

int Survival::spare(uint32_t available) const {
  if (policy_.family == Policy::Family::kLocal) return local_spare(available);
  return std::popcount(available) - static_cast<int>(policy_.k);
}

// The code is maximally recoverable: each group makes good for one loss of its own, and each global parity for one more
// wherever it is. An adversary spends his losses where none is made good for: on groups that lost a member already and
// on global parities; only then on whole groups, where the first loss is free for us.
int Survival::local_spare(uint32_t available) const {
  int uncovered = static_cast<int>(policy_.global());
  int good_targets = 0;
  for (uint32_t rest = available >> (policy_.k + policy_.local); rest != 0; rest &= rest - 1) {
    --uncovered;
    ++good_targets;
  }
  for (const uint32_t group : groups_) {
    const int lost = std::popcount(group & ~available);
    if (lost == 0) continue;
    uncovered += lost - 1;
    good_targets += std::popcount(group & available);
  }
  const int left = static_cast<int>(policy_.global()) - uncovered;  // losses that can still be made good for
  if (left < 0) return left;
  const unsigned from_whole_groups = static_cast<unsigned>(std::max(0, left + 1 - good_targets));
  const unsigned group_gain = policy_.k / policy_.local;  // a group has one member more
  return left + static_cast<int>(divide_up(from_whole_groups, group_gain));
}

bool Survival::may_lack(uint32_t missing) const {
  const uint32_t all = static_cast<uint32_t>((uint64_t{1} << policy_.chunks()) - 1);
  return missing == 0 || spare(all & ~missing) >= 1;
}

bool Survival::repairable(std::span<const uint32_t> lost, uint32_t available) const {
  if (decodable(available)) return true;
  return std::all_of(lost.begin(), lost.end(), [&](uint32_t chunk) {
    return contains(available, chunk) || has_local_group(chunk, available);
  });
}

}  // namespace kintsugi::erasure

// Code: what may be lost.
#include <algorithm>
#include <bit>

#include "common/base/assert.h"
#include "erasure/chunk_mask.h"
#include "erasure/code.h"

namespace kintsugi::erasure {

bool Code::has_local_group(uint32_t chunk, uint32_t available) const {
  for (const uint32_t group : groups_) {
    if (contains(group, chunk)) return (group & ~available & ~(uint32_t{1} << chunk)) == 0;
  }
  return false;
}

std::vector<uint32_t> Code::local_group(uint32_t chunk) const {
  for (const uint32_t group : groups_) {
    if (contains(group, chunk)) return indices_of(group);
  }
  return {};
}

int Code::spare(std::span<const uint32_t> available) const {
  KINTSUGI_ASSERT(check_indices(available, "available").ok());
  if (policy_.family != Policy::Family::kLocal)
    return static_cast<int>(available.size()) - static_cast<int>(k());
  return local_spare(mask_of(available));
}

// Maximally recoverable: each group makes good for one loss of its own, and each global parity for one more
// wherever it is. An adversary spends his losses where none is made good for: on groups that lost a member
// already and on global parities; only then on whole groups, where the first loss is free for us.
int Code::local_spare(uint32_t available) const {
  int uncovered = static_cast<int>(policy_.global());
  int good_targets = 0;
  for (uint32_t rest = available >> (k() + policy_.local); rest != 0; rest &= rest - 1) {
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
  const int from_whole_groups = std::max(0, left + 1 - good_targets);
  const int group_gain = static_cast<int>(k() / policy_.local);  // of a group of one more members
  return left + (from_whole_groups + group_gain - 1) / group_gain;
}

bool Code::may_lack(std::span<const uint32_t> missing) const {
  const uint32_t all = static_cast<uint32_t>((uint64_t{1} << chunks()) - 1);
  return missing.empty() || spare(indices_of(all & ~mask_of(missing))) >= 1;
}

bool Code::decodable(std::span<const uint32_t> available) const {
  return spare(available) >= 0;
}

bool Code::repairable(std::span<const uint32_t> lost, std::span<const uint32_t> available) const {
  if (decodable(available)) return true;
  const uint32_t mask = mask_of(available);
  return std::all_of(lost.begin(), lost.end(),
                     [&](uint32_t chunk) { return contains(mask, chunk) || has_local_group(chunk, mask); });
}

}  // namespace kintsugi::erasure

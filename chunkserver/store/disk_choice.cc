#include "chunkserver/store/disk_choice.h"

#include <algorithm>
#include <vector>

namespace kintsugi::chunkserver {
namespace {

StoreRoot* emptiest(StoreRoots roots) {
  StoreRoot* best = nullptr;
  for (const auto& root : roots) {
    if (!root->disk.takes_writes()) continue;
    if (best == nullptr || root->disk.free_bytes() > best->disk.free_bytes()) best = root.get();
  }
  return best;
}

std::vector<StoreRoot*> with_room(StoreRoots roots, uint64_t needed) {
  std::vector<StoreRoot*> found;
  for (const auto& root : roots) {
    if (root->disk.takes_writes() && root->disk.free_bytes() >= needed) found.push_back(root.get());
  }
  return found;
}

/// REQUIRES: there is one, and each has free bytes.
StoreRoot* draw_by_free_room(const std::vector<StoreRoot*>& roots, runtime::Random& random) {
  uint64_t all = 0;
  for (const StoreRoot* root : roots)
    all += root->disk.free_bytes();
  uint64_t drawn = random.below(all);
  for (StoreRoot* root : roots) {
    if (drawn < root->disk.free_bytes()) return root;
    drawn -= root->disk.free_bytes();
  }
  return roots.back();
}

}  // namespace

StoreRoot* choose_disk(StoreRoots roots, uint64_t needed, runtime::Random& random) {
  std::vector<StoreRoot*> candidates = with_room(roots, needed);
  if (candidates.empty()) return emptiest(roots);
  const auto is_slow = [](const StoreRoot* root) { return root->health.condition() == DiskCondition::kSlow; };
  if (!std::ranges::all_of(candidates, is_slow)) std::erase_if(candidates, is_slow);
  if (candidates.size() == 1) return candidates.front();
  StoreRoot* const one = draw_by_free_room(candidates, random);
  StoreRoot* const other = draw_by_free_room(candidates, random);
  return other->disk.promised_bytes() < one->disk.promised_bytes() ? other : one;
}

}  // namespace kintsugi::chunkserver

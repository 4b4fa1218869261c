#include "chunkserver/store/usage_profile.h"

#include <algorithm>
#include <cmath>

namespace kintsugi::chunkserver {

double UsageProfile::now_in_half_lives() const {
  return std::chrono::duration<double>(clock_.now().time_since_epoch()) / kHalfLife;
}

double UsageProfile::heat_of(Score score) const {
  return std::exp2(score - now_in_half_lives());
}

void UsageProfile::read(ChunkId id, double share) {
  if (!(share > 0)) return;
  share = std::min(share, 1.0);
  const double before = heat(id);
  forget(id);  // the score is a part of the key of order_, and cannot change in place
  const Score score = std::log2(before + share) + now_in_half_lives();
  scores_[id] = score;
  order_.emplace(score, id);
  if (scores_.size() > max_chunks_) forget(ChunkId{order_.begin()->second});
  on_change(id);
}

void UsageProfile::forget(ChunkId id) {
  const auto found = scores_.find(id);
  if (found == scores_.end()) return;
  order_.erase({found->second, id});
  scores_.erase(found);
}

double UsageProfile::heat(ChunkId id) const {
  const auto found = scores_.find(id);
  return found == scores_.end() ? 0 : heat_of(found->second);
}

std::vector<std::pair<ChunkId, double>> UsageProfile::hottest(size_t limit) const {
  std::vector<std::pair<ChunkId, double>> chunks;
  for (auto next = order_.rbegin(); next != order_.rend() && chunks.size() < limit; ++next) {
    chunks.emplace_back(next->second, heat_of(next->first));
  }
  return chunks;
}

}  // namespace kintsugi::chunkserver

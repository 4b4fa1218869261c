#include "monitoring/progress/counts/markov.h"

#include <algorithm>

namespace kintsugi::progress {

uint32_t Markov::add_state(uint64_t key) {
  const auto found = index_.find(key);
  if (found != index_.end()) return found->second;
  if (keys_.size() >= kMaxStates) return kNone;
  const auto state = static_cast<uint32_t>(keys_.size());
  index_.emplace(key, state);
  keys_.push_back(key);
  successors_.emplace_back();
  counts_.emplace_back();
  out_.push_back(0);
  return state;
}

uint32_t Markov::find(uint64_t key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? kNone : found->second;
}

void Markov::add(uint64_t from_key, uint64_t to_key, double count) {
  const uint32_t from = add_state(from_key), to = add_state(to_key);
  if (from == kNone || to == kNone) return;
  std::vector<uint32_t>& successors = successors_[from];
  const auto found = std::find(successors.begin(), successors.end(), to);
  const auto at = static_cast<size_t>(found - successors.begin());
  if (found == successors.end()) {
    successors.push_back(to);
    counts_[from].push_back(0);
  }
  counts_[from][at] += count;
  out_[from] += count;
}

double Markov::probability(uint32_t from, size_t successor) const {
  if (out_[from] <= 0) return 1.0 / static_cast<double>(successors_[from].size());
  return counts_[from][successor] / out_[from];
}

}  // namespace kintsugi::progress

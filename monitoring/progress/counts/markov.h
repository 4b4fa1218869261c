/// The control flow of many tasks as one graph: states, and how often each transition was taken.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "monitoring/progress/strong_components.h"

namespace kintsugi::progress {

/// States are any numbers outside, and 0, 1, 2… inside.
class Markov {
 public:
  static constexpr uint32_t kNone = ~0u;
  static constexpr size_t kMaxStates = 65'536;

  /// The index of a state, which is added when it is new; kNone when there are too many.
  uint32_t add_state(uint64_t key);
  uint32_t find(uint64_t key) const;  ///< kNone: the key is unknown
  uint64_t key(uint32_t state) const { return keys_[state]; }
  size_t size() const { return keys_.size(); }

  void add(uint64_t from, uint64_t to, double count = 1);

  const Successors& successors() const { return successors_; }
  /// Beside each successor, how often it was taken.
  const std::vector<std::vector<double>>& counts() const { return counts_; }
  /// count / sum of counts out of the state; all equal when nothing was counted.
  double probability(uint32_t from, size_t successor) const;

 private:
  std::vector<uint64_t> keys_;
  std::unordered_map<uint64_t, uint32_t> index_;
  Successors successors_;
  std::vector<std::vector<double>> counts_;
  std::vector<double> out_;
};

}  // namespace kintsugi::progress

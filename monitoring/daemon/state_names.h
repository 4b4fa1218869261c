/// What states are called, of all processes: states of equal regions have one key everywhere. Bounded. Not thread-safe.
#pragma once

#include <unordered_map>

#include "monitoring/model/process_view.h"
#include "monitoring/similarity/watch.h"

namespace kintsugi::monitoring {

class StateNames {
 public:
  static constexpr size_t kMostStates = 65'536;

  /// Takes in what the process has told since.
  void learn(const model::ProcessView& view);
  /// A state that is not known is named by its key.
  similarity::StateInfo describe(uint64_t state) const;

 private:
  std::unordered_map<uint64_t, similarity::StateInfo> states_;
};

}  // namespace kintsugi::monitoring

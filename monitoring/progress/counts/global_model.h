/// The control flow of all processes together, as a Markov chain of the states of their tasks.
#pragma once

#include <set>
#include <vector>

#include "monitoring/model/snapshot.h"
#include "monitoring/progress/counts/markov.h"

namespace kintsugi::progress {

struct GlobalModel {
  Markov markov;
  std::vector<uint32_t> entries;  ///< states in which tasks begin
};

class GlobalModelBuilder {
 public:
  /// Begins with all transitions that the processes tell of.
  explicit GlobalModelBuilder(const model::Snapshot& snapshot);
  /// Key 0 is outside of every task.
  void add(uint64_t from, uint64_t to, double count);
  Markov& markov() { return model_.markov; }
  GlobalModel build();

 private:
  GlobalModel model_;
  std::set<uint64_t> entries_;  ///< keys of the states in which tasks begin
};

}  // namespace kintsugi::progress

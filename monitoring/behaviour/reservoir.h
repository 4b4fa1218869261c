/// A bounded sample of a stream of executions that keeps the rare sizes. Not thread-safe.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "common/base/draws.h"

namespace kintsugi::behaviour {

struct Execution {
  std::vector<double> inputs, observed;
};

/// Executions are kept by the octave of their size. When all places are taken, a newcomer takes that of a random one
/// of the octave that has most. Old ones fade: a full octave forgets as if it had seen at most four times what it
/// holds.
class Reservoir {
 public:
  explicit Reservoir(size_t places, uint64_t seed) : places_(places), draws_(seed) {}
  void add(double size, Execution execution);
  size_t size() const { return executions_.size(); }
  const std::vector<Execution>& executions() const { return executions_; }

 private:
  struct Octave {
    std::vector<size_t> members;  ///< indexes into executions_
    uint64_t seen = 0;
  };
  size_t places_;
  Draws draws_;
  std::vector<Execution> executions_;
  std::unordered_map<int, Octave> octaves_;
};

}  // namespace kintsugi::behaviour

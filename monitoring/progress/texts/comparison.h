/// The methods that ours is compared with, on the same snapshots.
#pragma once

#include <vector>

#include "monitoring/progress/evidence/evidence.h"
#include "monitoring/progress/lasting.h"

namespace kintsugi::progress {

enum class Method : uint8_t {
  kTargetsHidden,  ///< our method, as if no wait named its target
  kProdometer,     ///< loop counts, and the table of dependences where there is no common loop
  /// Path probabilities from each task's own model, summed over simple paths (DIST).
  kAutomaDeD,
  kAutomaDeDSemi,  ///< like kAutomaDeD, from one global model (SEMI-DIST)
  kOldestSpan,     ///< blames what has been open for longest
  kSilence,        ///< only missing reports and heartbeats count
};

class Comparison {
 public:
  explicit Comparison(Method method, int rounds = Lasting::kRounds) : method_(method), lasting_(rounds) {}

  /// As Engine::diagnose.
  std::vector<proto::Verdict> diagnose(const model::Snapshot& snapshot);

 private:
  std::vector<proto::Verdict> verdicts(const OpenTasks& tasks) const;

  const Method method_;
  Evidence evidence_;
  Lasting lasting_;
};

}  // namespace kintsugi::progress

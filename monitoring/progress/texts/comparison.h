/// The methods that ours is compared with, on the same snapshots.
#pragma once

#include <vector>

#include "monitoring/progress/evidence/evidence.h"
#include "monitoring/progress/lasting.h"

namespace kintsugi::progress {

enum class Method : uint8_t {
  kTargetsHidden,  ///< ours, as if no wait said what it waits for
  kProdometer,     ///< counts of loops, and the table of dependences where there is no common loop
  kAutomaDeD,      ///< path probabilities from each task's own model, sums over simple paths (DIST)
  kAutomaDeDSemi,  ///< the same from one global model (SEMI-DIST)
  kOldestSpan,     ///< whatever is open for longest
  kSilence,        ///< missing reports and heartbeats alone
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

/// What History holds.
#pragma once

#include <map>
#include <set>

#include "monitoring/progress/diagnosis.h"
#include "monitoring/progress/ended_waits.h"
#include "monitoring/progress/movement.h"
#include "monitoring/progress/open_tasks.h"
#include "monitoring/progress/processor_shares.h"
#include "monitoring/progress/slowdown.h"
#include "monitoring/progress/sojourns.h"

namespace kintsugi::progress {

struct History::State {
  static constexpr size_t kMaxCandidates = 4'096;

  /// Takes in what this snapshot tells about ended waits and counters, and forgets what is too old.
  void observe(const OpenTasks& tasks, const Settings& settings);
  /// Recomputed every few seconds: it reads all transitions of all processes.
  const Sojourns& sojourns(const model::Snapshot& snapshot);
  std::set<uint64_t> wanted;  ///< processes that are asked for everything that is open in them
  Movement movement;
  EndedWaits ended;

  /// A conclusion that has to hold for several rounds.
  struct Candidate {
    int rounds = 0;
    uint64_t sequence = 0;  ///< of its process's last report that it held in
    TimePoint seen{};
  };
  std::map<uint64_t, Candidate> candidates;   ///< by identity
  std::map<uint64_t, TimePoint> stood_still;  ///< processes, and when a verdict last said that they do
  ProcessorShares shares;
  Slowdowns slowdowns;
  model::WorkerModel earlier;  ///< of other runs

 private:
  Sojourns sojourns_;
  TimePoint sojourns_made_{};
  size_t sojourns_of_ = 0;
};

}  // namespace kintsugi::progress

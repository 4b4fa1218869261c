/// The search for culprits: from one snapshot of all processes to verdicts that name a process, a region of code and a
/// line.
///
/// Every wait says what it waits for, so the open tasks of all processes form a graph of waits. A task that makes
/// no progress, waits for nobody, and is waited for is the culprit (Laguna et al. 2015, definition 2, with explicit
/// edges instead of guessed ones). docs/decisions/025-waits-before-progress.md says why.
///
/// The steps, each a room below this one: what the snapshots say together (evidence/), who waits for whom and for whom
/// in the end (waits/), who of equal siblings is behind (counts/), and what makes progress, but slower than it did
/// (slowness/).
#pragma once

#include <map>
#include <set>
#include <vector>

#include "monitoring/progress/evidence/evidence.h"
#include "monitoring/progress/lasting.h"
#include "monitoring/progress/slowness/slowdown.h"
#include "monitoring/progress/waits/machine_disks.h"
#include "monitoring/progress/waits/wait_graph.h"

namespace kintsugi::progress {

struct EngineOptions {
  int rounds = Lasting::kRounds;  ///< see Lasting
  bool compare_siblings = true;   ///< false: verdicts follow from waits alone, for comparison
};

/// Remembers what it needs between snapshots, bounded. Not thread-safe.
class Engine {
 public:
  explicit Engine(EngineOptions options = {}) : options_(options), lasting_(options.rounds) {}

  /// The worst first. Call it about once a second, with snapshots of growing `taken`. Verdicts have no id and no wall
  /// times: alarms are the caller's business; `identity` says which verdicts of successive snapshots are the same.
  std::vector<proto::Verdict> diagnose(const model::Snapshot& snapshot);

  /// The process is asked for everything that is open in it with the next answer (SightReportAnswer.all_live), because
  /// somebody waits for a task that its reports do not show.
  bool wants_everything(uint64_t process) const { return wanted_.contains(process); }
  /// Calls to the process, by their spans, that it shows no task for: it is asked whether it has served them
  /// (SightReportAnswer.calls).
  std::vector<uint64_t> wants_to_know_of(uint64_t process) const;

 private:
  std::vector<proto::Verdict> from_waits(const OpenTasks& tasks);
  /// `standing`: processes that make no progress, besides those that verdicts name.
  void add_slow(const model::Snapshot& snapshot, const std::set<uint64_t>& standing,
                std::vector<proto::Verdict>& verdicts);

  const EngineOptions options_;
  Evidence evidence_;
  MachineDisks machine_disks_;
  Lasting lasting_;
  Slowdowns slowdowns_;
  WaitGraph::Wanted wanted_;
  /// Key: process id. When a verdict last said that the process makes no progress.
  std::map<uint64_t, TimePoint> stood_still_;
};

}  // namespace kintsugi::progress

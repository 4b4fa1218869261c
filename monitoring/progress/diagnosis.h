/// Who holds everybody up: from one snapshot of all processes to verdicts that name a process, a region of code and a line.
///
/// Every wait says what it waits for, so the open tasks of all processes form a graph of waits. Who stands still, waits for nobody, and
/// is waited for is the culprit (Laguna et al. 2015, definition 2, with explicit edges instead of guessed ones). docs/decisions/025-waits-before-progress.md says why.
#pragma once

#include <memory>
#include <vector>

#include "common/proto/sight.pb.h"
#include "monitoring/model/snapshot.h"
#include "monitoring/model/worker_model.h"

namespace kintsugi::progress {

/// How the progress of tasks is compared.
enum class Method : uint8_t {
  kWaits,          ///< ours: explicit waits first, then counts of loops among siblings, then probabilities
  kWaitsOnly,      ///< explicit waits and nothing else
  kTargetsHidden,  ///< ours, as if no wait said what it waits for
  kProdometer,  ///< the text's form: counts of loops, and table of dependences where there is no common loop
  kAutomaDeD,   ///< path probabilities from each task's own model, sums over simple paths (DIST)
  kAutomaDeDSemi,  ///< the same from one global model (SEMI-DIST)
  kOldestSpan,     ///< whatever is open for longest
  kSilence,        ///< missing reports and heartbeats alone
};

struct Settings {
  Method method = Method::kWaits;
  /// A wait is a hang once it stands still for 2^(mean + deviations * sigma) of the log2 sojourns of its state, within these bounds.
  Duration least_stillness = 1s, most_stillness = 6s;
  Duration unknown_stillness = 5s;  ///< for states with fewer than `least_samples` sojourns
  double deviations = 5;
  uint64_t least_samples = 30;
  /// A process is silent when nothing has arrived for this long. It reports every second.
  Duration silence = 3s;
  Duration loop_stall = 2s;       ///< of an event loop
  Duration remember_ended = 60s;  ///< waits that ended without what they waited for
  /// A verdict has to hold in so many successive reports of its process (rounds, for one that does not report).
  int rounds = 2;
  double least_share = 0.1;  ///< of the first culprit's waiters, that another needs to be named beside it
  size_t most_verdicts = 32;
  bool slow = true;  ///< look for what goes on, but slower than it did
};

/// What has to be remembered between snapshots: which conclusions stood in the last ones, waits that have ended, counters of devices,
/// sojourns of earlier runs. Bounded. Not thread-safe.
class History {
 public:
  History();
  ~History();
  History(History&&) noexcept;
  History& operator=(History&&) noexcept;

  /// Processes that are asked for everything that is open in them with the next answer (SightReportAnswer.all_live), because somebody waits
  /// for a task that their reports do not show.
  bool wants_everything(uint64_t process) const;

  /// What workers did in earlier runs, so that the first operation after a start is judged, too. Added to what processes report.
  void remember(const model::WorkerModel& earlier);

  struct State;
  State& state() { return *state_; }
  const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// The worst first. Call it about once a second, with snapshots of growing `taken`. Verdicts have no id and no wall times: alarms
/// are the caller's business; `identity` says which verdicts of successive snapshots are the same.
std::vector<proto::Verdict> diagnose(const model::Snapshot& snapshot, const Settings& settings,
                                     History& history);

/// Equal for verdicts that say the same of the same place.
uint64_t identity(const proto::Verdict& verdict);

}  // namespace kintsugi::progress

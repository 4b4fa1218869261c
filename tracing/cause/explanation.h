/// From a trace to what was odd and why: the steps in the order of the text (Mirgorodskiy 2006, sections 5.2 to 5.5).
///
/// Processes that do the same work (all chunkservers): did one fall silent first? Then its last function. Else, whose time
/// profile is unlike the others', and the function that makes most of the difference.
/// Flows of one kind (all reads): who was held up for long, or whose composite profile, or whose coverage, is unlike the others'? Then
/// what makes the difference, and the calls that it alone made or left out.
///
/// With runs that are known to be well: who runs for longer than chance can have it, or else who is held up for longer, or else
/// who calls what nobody called in those.
#pragma once

#include <optional>
#include <string>

#include "tracing/anomaly/last_timestamp.h"
#include "tracing/anomaly/suspect_score.h"
#include "tracing/cause/coverage.h"
#include "tracing/cause/difference.h"
#include "tracing/cause/interval.h"
#include "tracing/cause/known_normal.h"
#include "tracing/cause/last_entry.h"

namespace kintsugi::cause {

enum class Finding : uint8_t {
  kFailStop,   ///< a process fell silent: `last` has its last function
  kOutlier,    ///< `culprit` is unlike the others
  kNoOutlier,  ///< none is: all are well, or all are affected alike
  kTooFew,     ///< too little to compare with
};

struct Explanation {
  Finding finding = Finding::kTooFew;
  uint32_t culprit = flow::kNone;  ///< a process, or a flow; kNone unless there is one
  anomaly::ProfileKind profile =
      anomaly::ProfileKind::kTime;            ///< the profile that found it, or that was tried last
  anomaly::Part part = anomaly::Part::kAll;   ///< the part of the time that the profile counts
  anomaly::Ranking ranking;                   ///< trials are places in what was compared; empty if fail-stop
  std::vector<Difference> differences;        ///< the largest first
  std::optional<AnomalousInterval> interval;  ///< interval of processes
  CoverageAnalysis coverage;                  ///< coverage of flows
  anomaly::EarliestLast silence;              ///< the last sign of processes
  std::vector<LastEntry> last;  ///< the last entry of the silent process, or of each process of the flow
};

struct ExplanationSettings {
  int64_t clock_precision_ns = 1'000'000;
  size_t differences = 10;
  std::vector<std::string> idle;  ///< functions in which threads have nothing to do
  bool replicate = false;  ///< work that several flows share counts for each of them, not for the first alone
  Order order = Order::kTime;
  IntervalSettings interval;
};

/// Seconds that a request has to be held up for, and twice as long as any that began in another process, to be accused for that without
/// runs that were well. Chance takes tenths of a second on a busy machine, and shares of time say then little.
inline constexpr double kLeastHeldUp = 1;

/// What is compared, and with what.
struct Question {
  std::span<const uint32_t> compared;                ///< processes, or flows: of one kind
  std::span<const anomaly::PathTotals> normal = {};  ///< totals of known-normal runs, with the same `paths`
  /// What each flow, or process, of the trace did, with the same `paths`, for whoever asks more than one question; empty: not known yet.
  std::span<const anomaly::PathTotals> totals = {};
  /// By path, of all that `totals` have: what waits, and which calls are chance. With `known`, that of it counts. Empty: nothing is.
  std::span<const anomaly::Waiting> waiting = {};
  /// What chance does, by runs that were well: those of `normal`, with others than these flows; null: there are none.
  KnownNormal* known = nullptr;
};

/// REQUIRES: `question` names processes of `trace`. Errors: those of anomaly::rank.
Result<Explanation> explain_processes(const flow::Trace& trace, anomaly::CallPaths& paths,
                                      const Question& question, const ExplanationSettings& settings = {});

/// REQUIRES: `question` names flows of `flows`. Errors: those of anomaly::rank.
Result<Explanation> explain_flows(const flow::Trace& trace, const flow::Flows& flows,
                                  anomaly::CallPaths& paths, const Question& question,
                                  const ExplanationSettings& settings = {});

/// Flows that can be compared: those whose start events are in the same function, the largest kind first. Only flows that a
/// start event began, or a message from somewhere that is not traced.
struct FlowsOfOneKind {
  std::string start;  ///< the function
  std::vector<flow::FlowId> flows;
};
std::vector<FlowsOfOneKind> kinds_of_flows(const flow::Trace& trace, const flow::Flows& flows);

/// The processes in which flows began.
std::vector<uint32_t> beginnings_of(const flow::Trace& trace, const flow::Flows& flows,
                                    std::span<const uint32_t> compared);

/// A few lines for a person. `name` is what the culprit is called: "chunkserver-3", "flow 12 (client::read)".
std::string describe(const Explanation& explanation, const anomaly::CallPaths& paths,
                     const std::string& name);

}  // namespace kintsugi::cause

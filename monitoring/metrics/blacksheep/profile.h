/// Which metrics of a process change when which of its states do, learnt from healthy runs of one kind of load. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "monitoring/metrics/blacksheep/change_points.h"
#include "monitoring/metrics/blacksheep/corroboration.h"
#include "monitoring/metrics/blacksheep/states.h"
#include "monitoring/metrics/trace/not_enough.h"
#include "monitoring/metrics/trace/series.h"

namespace kintsugi::blacksheep {

using metric_trace::Answer;
using metric_trace::Lack;
using metric_trace::NotEnough;

/// A run of one process: metrics and states at the same instants.
struct Run {
  std::chrono::nanoseconds period{std::chrono::seconds(1)};
  std::vector<std::string> metric_names, state_names;
  std::vector<std::vector<double>> metrics;  ///< values of each metric at each instant; NaN: unknown
  std::vector<std::vector<double>> states;   ///< values of each state at each instant
  std::vector<int64_t> t_ns;                 ///< time of each instant

  size_t instants() const { return t_ns.size(); }
  double hours() const;
  std::optional<size_t> metric(const std::string& name) const;
  std::optional<size_t> state(const std::string& name) const;
};

/// Metrics that tell the same as the log does say nothing: only what the kernel says of the process is taken.
bool is_of_the_system(const std::string& metric);

/// The instants that both have. kSamples: none, or the periods differ.
Answer<Run> run_of(const metric_trace::Series& series, const States& states);

/// A process that never was in a state of its peers had 0 executions in it: without that a state that one process does not know
/// would be left out for all.
void give_all_states(std::vector<Run>& runs);

struct Pair {
  std::string metric, state;
  ChangeOptions metric_changes, state_changes;
  Corroboration training;
  size_t good_folds = 0;  ///< number of good ones among kFolds, each judged with what the others taught
};

inline constexpr size_t kFolds = 5;
struct ProfileOptions {
  std::vector<size_t> windows{1, 2, 3, 5, 10, 20, 45};  ///< repairs come alone and take a second or two
  std::vector<double> thresholds{0.5, 1, 2, 4, 20};
  std::chrono::nanoseconds tolerance = std::chrono::seconds(3);
  double good_score = 0.3;             ///< normalised; above it a fold is good
  size_t good_folds = 3;               ///< a pair has so many
  double fewest_changes_per_hour = 5;  ///< changes of the state an hour that are needed

  double sigma(std::chrono::nanoseconds period) const {
    return static_cast<double>(tolerance.count()) / 2 / static_cast<double>(period.count());
  }
};

struct Profile {
  std::string load;  ///< for instance "write-heavy"
  ProfileOptions options;
  std::vector<Pair> pairs;         ///< metrics and states that change together
  std::vector<double> all_scores;  ///< normalised, of every pair with enough changes of its state, ascending
};

/// kHealthyReference: fewer runs than kFolds; kStateChanges: no state changes often enough; kMetrics: there is no metric of
/// the system.
Answer<Profile> learn(std::string load, std::span<const Run> healthy, const ProfileOptions& options = {});

/// The changes of both series of a pair in a run. None: the run does not have them.
struct PairChanges {
  std::vector<size_t> metric, state;
};
std::optional<PairChanges> changes_of(const Pair& pair, const Run& run);

}  // namespace kintsugi::blacksheep

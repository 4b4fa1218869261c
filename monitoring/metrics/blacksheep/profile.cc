#include "monitoring/metrics/blacksheep/profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

namespace kintsugi::blacksheep {

namespace {

/// What is read of /proc, and the samples of perf.
constexpr std::array<std::string_view, 40> kSystemMetrics{"utime",
                                                          "stime",
                                                          "minflt",
                                                          "majflt",
                                                          "num_threads",
                                                          "vsize",
                                                          "rss",
                                                          "cpu_ns",
                                                          "run_delay_ns",
                                                          "RssAnon",
                                                          "VmData",
                                                          "VmStk",
                                                          "VmSwap",
                                                          "voluntary_ctxt_switches",
                                                          "nonvoluntary_ctxt_switches",
                                                          "rchar",
                                                          "wchar",
                                                          "syscr",
                                                          "syscw",
                                                          "read_bytes",
                                                          "write_bytes",
                                                          "cancelled_write_bytes",
                                                          "fds",
                                                          "user_samples",
                                                          "kernel_samples",
                                                          "page_faults_user",
                                                          "page_faults_kernel",
                                                          "cpu_migrations",
                                                          "rx_bytes",
                                                          "tx_bytes",
                                                          "rx_packets",
                                                          "tx_packets",
                                                          "TcpRetransSegs",
                                                          "TcpCurrEstab",
                                                          "TCPTimeouts",
                                                          "ListenDrops",
                                                          "sockets_inuse",
                                                          "tcp_mem",
                                                          "raw_syscalls",
                                                          "context_switches"};

/// A way to look at a series: an index into windows and one into thresholds.
struct Setting {
  size_t window, threshold;
};

/// The changes of one series in every run, for every setting.
class Looks {
 public:
  Looks(std::span<const std::vector<double>* const> by_run, const ProfileOptions& options)
      : thresholds_(options.thresholds.size()) {
    std::vector<double> all;
    for (const auto* values : by_run)
      all.insert(all.end(), values->begin(), values->end());
    const double floor = floor_of(all);
    for (const size_t window : options.windows) {
      // Of the runs one after the other: a window over the seam of two runs is one among very many.
      const double noise = noise_of(all, window);
      for (const double threshold : options.thresholds) {
        options_.push_back({.window = window, .threshold = threshold, .floor = floor, .noise = noise});
        auto& runs = changes_.emplace_back();
        for (const auto* values : by_run) {
          auto& ats = runs.emplace_back();
          for (const Change& change : change_points(*values, options_.back()))
            ats.push_back(change.at);
        }
      }
    }
  }
  const std::vector<size_t>& changes(Setting setting, size_t run) const {
    return changes_[index(setting)][run];
  }
  const ChangeOptions& options(Setting setting) const { return options_[index(setting)]; }
  size_t count(Setting setting) const {
    size_t count = 0;
    for (const auto& run : changes_[index(setting)])
      count += run.size();
    return count;
  }

 private:
  size_t index(Setting setting) const { return setting.window * thresholds_ + setting.threshold; }
  const size_t thresholds_;
  std::vector<ChangeOptions> options_;                     ///< index: setting
  std::vector<std::vector<std::vector<size_t>>> changes_;  ///< indexes: setting, run
};

/// The search for the settings of one pair: one window for both, a threshold for each.
class PairSearch {
 public:
  PairSearch(const Looks& metric, const Looks& state, std::span<const Run> runs,
             const ProfileOptions& options)
      : metric_(metric), state_(state) {
    double hours = 0;
    for (const Run& run : runs)
      hours += run.hours();
    for (size_t window = 0; window < options.windows.size(); ++window) {
      for (size_t s = 0; s < options.thresholds.size(); ++s) {
        const Setting at{window, s};
        if (static_cast<double>(state.count(at)) < options.fewest_changes_per_hour * hours ||
            state.count(at) == 0)
          continue;
        for (size_t m = 0; m < options.thresholds.size(); ++m)
          tried_.push_back({{window, m}, at, scores({window, m}, at, runs, options)});
      }
    }
  }

  bool possible() const { return !tried_.empty(); }
  /// The best settings over the runs of all folds but one; kFolds: over all.
  Pair best(size_t without, Corroboration* held_out = nullptr) const {
    const Tried* best = nullptr;
    double highest = 0;
    for (const Tried& tried : tried_) {
      const Corroboration all = total(tried, without);
      // A setting that finds few changes may agree by chance, so its score is lowered by about a standard error.
      const double score = all.normalised() - 1 / std::sqrt(1 + static_cast<double>(all.events()));
      if (best != nullptr && score <= highest) continue;
      best = &tried;
      highest = score;
    }
    if (held_out != nullptr) *held_out = best->by_fold[without];
    return {.metric = {},
            .state = {},
            .metric_changes = metric_.options(best->metric),
            .state_changes = state_.options(best->state),
            .training = total(*best, without)};
  }

 private:
  struct Tried {
    Setting metric, state;
    std::array<Corroboration, kFolds> by_fold;
  };
  std::array<Corroboration, kFolds> scores(Setting m, Setting s, std::span<const Run> runs,
                                           const ProfileOptions& options) const {
    std::array<Corroboration, kFolds> out;
    for (size_t run = 0; run < runs.size(); ++run)
      out[run % kFolds] += corroborate(metric_.changes(m, run), state_.changes(s, run), runs[run].instants(),
                                       options.sigma(runs[run].period));
    return out;
  }
  static Corroboration total(const Tried& tried, size_t without) {
    Corroboration out;
    for (size_t fold = 0; fold < kFolds; ++fold) {
      if (fold != without) out += tried.by_fold[fold];
    }
    return out;
  }

  const Looks &metric_, &state_;
  std::vector<Tried> tried_;
};

/// The looks at each series that all runs have.
template <class Names, class Values>
std::map<std::string, Looks> looks_of(std::span<const Run> runs, Names names, Values values,
                                      const ProfileOptions& options) {
  std::map<std::string, std::vector<const std::vector<double>*>> series;
  for (const Run& run : runs) {
    for (size_t i = 0; i < (run.*names).size(); ++i)
      series[(run.*names)[i]].push_back(&(run.*values)[i]);
  }
  std::map<std::string, Looks> out;
  for (const auto& [name, by_run] : series) {
    if (by_run.size() == runs.size()) out.emplace(name, Looks(by_run, options));
  }
  return out;
}

std::optional<size_t> place_of(const std::vector<std::string>& names, const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<size_t>(found - names.begin());
}

}  // namespace

double Run::hours() const {
  return std::chrono::duration<double, std::ratio<3600>>(period).count() * static_cast<double>(instants());
}

std::optional<size_t> Run::metric(const std::string& name) const {
  return place_of(metric_names, name);
}

std::optional<size_t> Run::state(const std::string& name) const {
  return place_of(state_names, name);
}

bool is_of_the_system(const std::string& metric) {
  return std::ranges::find(kSystemMetrics, metric) != kSystemMetrics.end();
}

Answer<Run> run_of(const metric_trace::Series& series, const States& states) {
  Run run{.period = series.period};
  std::vector<size_t> rows, intervals;
  for (size_t row = 0; series.period == states.period && row < series.rows(); ++row) {
    const int64_t after = series.t_ns[row] - states.begin_ns;
    const auto interval = static_cast<size_t>(after / states.period.count());
    if (after < 0 || interval >= states.intervals()) continue;
    rows.push_back(row);
    intervals.push_back(interval);
    run.t_ns.push_back(series.t_ns[row]);
  }
  if (rows.empty()) return NotEnough{Lack::kSamples, 0, 1};
  for (size_t column = 0; column < series.names.size(); ++column) {
    if (!is_of_the_system(series.names[column])) continue;
    run.metric_names.push_back(series.names[column]);
    auto& values = run.metrics.emplace_back();
    for (const size_t row : rows)
      values.push_back(series.values(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(column)));
  }
  for (size_t state = 0; state < states.names.size(); ++state) {
    run.state_names.push_back(states.names[state]);
    const Eigen::VectorXd activity = states.activity(state);
    auto& values = run.states.emplace_back();
    for (const size_t interval : intervals)
      values.push_back(activity[static_cast<Eigen::Index>(interval)]);
  }
  return run;
}

void give_all_states(std::vector<Run>& runs) {
  std::set<std::string> all;
  for (const Run& run : runs)
    all.insert(run.state_names.begin(), run.state_names.end());
  for (Run& run : runs)
    for (const std::string& name : all) {
      if (run.state(name)) continue;
      run.state_names.push_back(name);
      run.states.emplace_back(run.instants(), 0.0);
    }
}

Answer<Profile> learn(std::string load, std::span<const Run> healthy, const ProfileOptions& options) {
  if (healthy.size() < kFolds) return NotEnough{Lack::kHealthyReference, healthy.size(), kFolds};
  const auto metrics = looks_of(healthy, &Run::metric_names, &Run::metrics, options);
  const auto states = looks_of(healthy, &Run::state_names, &Run::states, options);
  if (metrics.empty()) return NotEnough{Lack::kMetrics};
  Profile profile{.load = std::move(load), .options = options};
  for (const auto& [state_name, state] : states) {
    for (const auto& [metric_name, metric] : metrics) {
      const PairSearch search(metric, state, healthy, options);
      if (!search.possible()) break;
      Pair pair = search.best(kFolds);
      pair.metric = metric_name;
      pair.state = state_name;
      for (size_t fold = 0; fold < kFolds; ++fold) {
        Corroboration held_out;
        search.best(fold, &held_out);
        pair.good_folds += held_out.normalised() > options.good_score ? 1 : 0;
      }
      profile.all_scores.push_back(pair.training.normalised());
      if (pair.good_folds >= options.good_folds) profile.pairs.push_back(std::move(pair));
    }
  }
  if (profile.all_scores.empty()) return NotEnough{Lack::kStateChanges, 0, 1};
  std::ranges::sort(profile.all_scores);
  return profile;
}

std::optional<PairChanges> changes_of(const Pair& pair, const Run& run) {
  const auto metric = run.metric(pair.metric), state = run.state(pair.state);
  if (!metric || !state) return std::nullopt;
  PairChanges out;
  for (const Change& change : change_points(run.metrics[*metric], pair.metric_changes))
    out.metric.push_back(change.at);
  for (const Change& change : change_points(run.states[*state], pair.state_changes))
    out.state.push_back(change.at);
  return out;
}

}  // namespace kintsugi::blacksheep

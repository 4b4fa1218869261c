/// What windows of a healthy process look like, and how far another window is from that.
///
/// The text's distance is ruled by noise: the correlation of unrelated metrics in S rows has a deviation of 1/√(S-1), so
/// with 50 metrics (1,225 pairs) two healthy windows of 100 rows are about 5 apart, and one metric that loses all its
/// relations adds 3.5. Here each pair is measured by what it does on the healthy trace, and only the largest count.
/// Pure.
#pragma once

#include <functional>
#include <vector>

#include <Eigen/Core>

#include "common/base/status.h"
#include "monitoring/metrics/trace/preparation.h"
#include "monitoring/metrics/trace/windows.h"

namespace kintsugi::orion {

/// Pairs of one window that count in its distance, and in a metric's votes.
inline constexpr size_t kCountedPairs = 32;
inline constexpr size_t kVotingPairs = 10;
/// The healthy trace is one of many that there could have been: so much farther is still healthy.
inline constexpr double kMargin = 1.2;

/// The metric counts what a process is asked for, in calls or bytes.
bool is_load(const std::string& name);

/// The work that a process is asked for, as one number a row: the mean of its rates of calls and bytes, each in units of its
/// deviation on the healthy trace. What follows from more or less work is no fault.
class Load {
 public:
  Load() = default;
  Load(const metric_trace::Series& healthy, const std::vector<size_t>& columns);

  /// By row; NaN where nothing is known. All 0 if the process has no such metric.
  Eigen::VectorXd of(const metric_trace::Series& series) const;
  const std::vector<size_t>& columns() const { return columns_; }

 private:
  std::vector<size_t> columns_;
  std::vector<double> means_, deviations_;
};

/// How a window differs from healthy ones.
struct Deviations {
  /// By pair of live metrics, in deviations; NaN: void. Under a load that the healthy trace does not know all are void:
  /// noise takes another share of the movement then.
  std::vector<float> pairs;
  /// By live metric, in deviations: its mean against what its load explains; of a metric that drifts by nature, how much
  /// it changed from one half of the window to the other.
  std::vector<double> sizes;
  /// The deviations of normal variables that are as rare: a metric that moves in rare steps has shown little.
  std::vector<double> levels;
  /// Index: watched metric; whether it had one value on the healthy trace, and has another one now.
  std::vector<bool> moved;
  double distance = 0;  ///< root mean square of the largest of all of them
  double level = 0;     ///< the largest of the levels: one metric alone hardly shows in the distance
};

/// By live metric: the square of its level, and the squares of the kVotingPairs pairs that deviate most, divided by their
/// number, for both metrics of each. (In the text each pair has one vote; here it weighs as much as it deviates.)
std::vector<double> scores_of(const std::vector<float>& pairs, const std::vector<double>& levels);

/// REQUIRES for all series: the same columns as the healthy one.
class HealthyWindows {
 public:
  /// What a window of `size` rows is judged as: its rows of the live metrics, or rows that are made from them.
  using Rows = std::function<Eigen::MatrixXd(const Eigen::MatrixXd& window)>;

  /// kNotFound with "not enough data because": fewer than kFewestWindows windows, or fewer than two live metrics.
  static Result<HealthyWindows> learn(const metric_trace::Series& healthy, size_t size, Rows rows = {});
  static constexpr size_t kFewestWindows = 8;
  /// A metric drifts by nature when its level on the healthy trace says so of the level half a window later (correlation).
  static constexpr double kDrift = 0.8;

  /// Of the window that begins with that row. `load` is load().of(series).
  Deviations deviations(const metric_trace::Series& series, const Eigen::VectorXd& load, size_t begin) const;

  size_t size() const { return size_; }
  const metric_trace::Preparation& preparation() const { return preparation_; }
  const std::vector<size_t>& columns() const { return columns_; }
  const Load& load() const { return load_; }
  /// What the level of a live metric grows by for one more of load.
  double slope(size_t live) const { return levels_[live].slope; }
  /// How many times what healthy traces of so many windows show at most; above 1: reported.
  double excess(const Deviations& deviations, size_t windows) const;

 private:
  /// A line through the windows' means over their loads.
  struct Level {
    double intercept = 0, slope = 0, deviation = 1;
    double mean_load = 0, squares_of_load = 0, windows = 0;
    /// Correlation of a window's rest with that of the next window that shares no row with it.
    double resemblance = 0;
    /// So many windows would say as much if they did not resemble their neighbours: a metric that moves in rare steps has
    /// shown little of what it may do.
    double independent = 2;
    double off(double value, double load) const;
  };
  struct Sample {
    Eigen::VectorXd pairs, levels;
    double load = 0;      ///< mean of the load in the window
    double movement = 0;  ///< logarithm of its deviation in the window
    uint32_t part = 0;
  };
  Sample sample(const metric_trace::Series& series, const Eigen::VectorXd& load, size_t begin) const;
  bool knows(double load) const { return load >= least_load_ && load <= most_load_; }
  void find_drifting(const metric_trace::Series& healthy, const Eigen::VectorXd& load,
                     const std::vector<size_t>& begins);
  void learn_pairs(const std::vector<const Sample*>& samples);
  void learn_from(const std::vector<const Sample*>& samples);
  Deviations compare(const Sample& sample) const;

  size_t size_ = 0;
  Rows rows_;
  metric_trace::Preparation preparation_;
  std::vector<size_t> columns_;
  Load load_;
  /// Lines through the windows' pairs over the movements of their loads: what follows from a load that hardly moves is
  /// ruled by noise, in all pairs at once.
  Eigen::VectorXd pair_means_, pair_slopes_, pair_deviations_;
  double mean_movement_ = 0;
  std::vector<Level> levels_;
  std::vector<bool> drifts_;               ///< index: live metric; whether it drifts by nature
  double least_load_ = 0, most_load_ = 0;  ///< least and most mean load of a healthy window
  /// Of what healthy windows show that were not learnt from.
  struct Usual {
    Usual() = default;
    explicit Usual(const std::vector<double>& values);
    /// Ninety-nine of a hundred healthy traces of so many windows stay below, and all windows that this was learnt from.
    double most(size_t windows) const;

    double median = 0, deviation = 1, largest = 0;
  };
  Usual distances_, levels_of_one_;
};

}  // namespace kintsugi::orion

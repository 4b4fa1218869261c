/// What the log of a process explains of the machine's work, and the machine's work of the log. Pure.
///
/// Each metric is a sum of what the executions of each state that end cost, and the mean number of executions of a state that are
/// open a sum of what work is done meanwhile. Both are learnt from the healthy time of all processes of a role. An execution that
/// is open says nothing about work: it may wait for another process. What executions of a state cost that the healthy time hardly
/// knows is not known, so where there are some, no more work than expected is found.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "monitoring/metrics/blacksheep/costs.h"
#include "monitoring/metrics/blacksheep/work.h"
#include "monitoring/metrics/trace/not_enough.h"

namespace kintsugi::blacksheep {

using metric_trace::Answer;
using metric_trace::Lack;
using metric_trace::NotEnough;

/// Fewer windows of a healthy time say little.
inline constexpr size_t kFewestWindows = 250;
/// A state that had executions in fewer windows is hardly known: it explains nothing and is not explained.
inline constexpr size_t kFewestWindowsOfState = 50;
/// An execution that is open for less than this share of a window is no finding.
inline constexpr double kLeastOpen = 0.01;

/// A row's numbers are explained by those of the other side.
struct Aspect {
  enum class Of : uint8_t { kMachine, kLog } of = Of::kMachine;
  std::string name;  ///< name of the metric, or of the state

  bool operator==(const Aspect&) const = default;
};

class Explanation {
 public:
  /// The windows [except_from, except_to) are left out. kMetrics: there is none; kHealthyPast: too few windows are known.
  /// REQUIRES: all have the same windows, and these states and metrics; `metrics` are of explained_metrics().
  static Answer<Explanation> learn(std::span<const Work> healthy, const std::vector<std::string>& states,
                                   const std::vector<std::string>& metrics, size_t except_from = 0,
                                   size_t except_to = 0);

  const std::vector<Aspect>& aspects() const { return aspects_; }
  /// How far each aspect of each window is from what explains it, windows by aspects: above 0 in usual deviations; below, how many
  /// times less than without any cause, less one: at -1 it is half of that. NaN: not known.
  Eigen::MatrixXd off(const Work& work) const;
  double actual(const Work& work, size_t window, size_t aspect) const;
  double explained(const Work& work, size_t window, size_t aspect) const;

 private:
  void learn_metric(size_t metric, const Eigen::MatrixXd& ended, const Eigen::MatrixXd& done);
  void learn_state(size_t state, const Eigen::MatrixXd& ended, const Eigen::MatrixXd& open,
                   const Eigen::MatrixXd& done);
  Eigen::RowVectorXd causes(const Work& work, size_t window, const Aspect& aspect) const;
  double off(const Work& work, size_t window, size_t aspect) const;
  bool has_strange_states(const Work& work, size_t window) const;

  std::vector<std::string> states_, metrics_;
  std::vector<Eigen::Index> work_;     ///< columns of the metrics that explain what is open
  std::vector<Eigen::Index> strange_;  ///< columns of the states that the healthy time hardly knows
  std::vector<Aspect> aspects_;
  std::vector<Eigen::Index> columns_;  ///< index: aspect; its column
  std::vector<Costs> costs_;           ///< index: aspect
  std::vector<double> least_;          ///< index: aspect; its least deviation
};

/// The metrics that are explained, of those that a trace has.
std::vector<std::string> explained_metrics(const std::vector<std::string>& names);

}  // namespace kintsugi::blacksheep

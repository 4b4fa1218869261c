/// What the log of a process tells and what the machine did for it, in windows of time that all processes share. Pure.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include <Eigen/Core>

#include "monitoring/metrics/blacksheep/states.h"
#include "monitoring/metrics/trace/series.h"

namespace kintsugi::blacksheep {

/// Long enough for a few executions of a server that is hardly used; a window begins at each multiple of the step.
inline constexpr std::chrono::seconds kWindow{10}, kStep{2};

/// Matrices have a row for each window.
struct Work {
  std::string source;
  std::vector<int64_t> begins_ns;  ///< begins of the windows, ascending
  Eigen::MatrixXd ended;           ///< executions of each state that ended, a second
  Eigen::MatrixXd open;            ///< mean number of open executions of each state
  std::vector<bool> others;        ///< there were executions of states that are not asked about
  Eigen::MatrixXd done;            ///< increase of each metric a second; NaN: nothing is known of the window

  size_t windows() const { return begins_ns.size(); }
};

/// Begins of the windows that have a row of any of them.
std::vector<int64_t> window_begins(std::span<const metric_trace::Series> series);

/// The windows of one process. Those in which it began anew, or of which too few rows are known, are not known. What is open when
/// the log ends stays open: nothing says that it ended. States and metrics that it does not have are 0 and NaN.
/// REQUIRES: the period of `states` divides kStep.
Work work_of(const metric_trace::Series& series, const States& states, const std::vector<int64_t>& begins_ns,
             const std::vector<std::string>& state_names, const std::vector<std::string>& metrics);

}  // namespace kintsugi::blacksheep

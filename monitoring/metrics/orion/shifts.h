/// How far the levels of a process's metrics moved since a healthy time: means in windows, then and now. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "monitoring/metrics/trace/preparation.h"
#include "monitoring/metrics/trace/series.h"

namespace kintsugi::orion {

/// A trend towards a limit that takes longer says nothing of what is wrong now.
inline constexpr double kEndsWithinSeconds = 86400;

/// The means of one metric in windows.
struct MetricShifts {
  /// Without the name of the process, which labels have: the same metric of a peer has the same name.
  std::string name;
  double mean = 0;  ///< the mean of healthy windows
  /// By healthy window, and by window of now: its mean less the healthy one; NaN: most of its rows are not known.
  std::vector<double> usual, moved;
  /// The limit that it goes towards now, with a trend that is certain and ends there within kEndsWithinSeconds; kMissing: it does
  /// not, or has no limit.
  double goes_to = metric_trace::kMissing;
};

struct Shifts {
  std::vector<MetricShifts> metrics;  ///< all that moved on the healthy trace
  /// By healthy window, and by window of now: the time of its middle.
  std::vector<int64_t> healthy_middles_ns, middles_ns;
  int64_t window_ns = 0;  ///< how long a window is

  const MetricShifts* find(const std::string& name) const;
};

/// Windows of so many rows. REQUIRES: `now` has the columns of `healthy`.
Shifts shifts_of(const metric_trace::Series& healthy, const metric_trace::Series& now,
                 const metric_trace::Preparation& preparation, size_t rows);
/// Rows of a window: a quarter of `now`, at most kShiftRows.
size_t rows_of_shifts(const metric_trace::Series& now);
inline constexpr size_t kShiftRows = 100;
inline constexpr size_t kFewestShiftRows = 20;

/// The name of a metric without that of its process.
std::string common_name(const std::string& metric, const std::string& source);

}  // namespace kintsugi::orion

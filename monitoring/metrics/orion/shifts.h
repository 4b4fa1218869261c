/// How far the levels of a process's metrics moved since a healthy time, beside what its peers did meanwhile.
///
/// Few windows of one process prove little: a metric that moves in rare steps has shown hardly anything of what it may do.
/// Its peers, processes with the same metrics, are a second healthy reference, then and now. So two things are told of a
/// shift: its size, by which metrics and processes are ranked, and its rarity, by which they are reported. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "monitoring/metrics/trace/preparation.h"
#include "monitoring/metrics/trace/series.h"

namespace kintsugi::orion {

/// A reference of fewer processes is none.
inline constexpr size_t kFewestPeers = 3;
/// Windows that count: a shift that is gone in the next window is none.
inline constexpr size_t kShiftedWindows = 3;
/// A trend towards a limit that takes longer says nothing of what is wrong now.
inline constexpr double kEndsWithinSeconds = 86400;

/// The means of one metric in windows.
struct MetricShifts {
  /// Without the name of the process, which labels have: the same metric of a peer has the same name.
  std::string name;
  double mean = 0, deviation = 0;  ///< mean and deviation of the means of healthy windows
  double independent = 2;          ///< so many of those would say as much if none resembled its neighbour
  /// By window of now: its mean less the healthy one; NaN: most of its rows are not known.
  std::vector<double> moved;
  /// The limit that it goes towards now, with a trend that is certain and ends there within kEndsWithinSeconds; kMissing: it does
  /// not, or has no limit.
  double goes_to = metric_trace::kMissing;
};

struct Shifts {
  std::vector<MetricShifts> metrics;  ///< all that moved on the healthy trace
  std::vector<int64_t> middles_ns;    ///< by window of now: the time of its middle
  int64_t window_ns = 0;              ///< how long a window is

  const MetricShifts* find(const std::string& name) const;
};

/// Windows of a quarter of `now`, at most kShiftRows. REQUIRES: `now` has the columns of `healthy`.
Shifts shifts_of(const metric_trace::Series& healthy, const metric_trace::Series& now,
                 const metric_trace::Preparation& preparation);
inline constexpr size_t kShiftRows = 100;
inline constexpr size_t kFewestShiftRows = 20;

/// The name of a metric without that of its process.
std::string common_name(const std::string& metric, const std::string& source);

/// Means over the kShiftedWindows windows in which a metric is farthest off, once what the median of its peers did at the
/// same time is left out.
struct Shift {
  /// In deviations: the largest of what it does by itself, what its peers do (both on healthy traces), and how far these are
  /// apart now.
  double size = 0;
  double rarity = 0;  ///< the deviation of a normal variable that is as rare
  double moved = 0;   ///< what it did itself in those windows
  size_t window = 0;  ///< the one in which it is farthest off
};

/// Of metric `metric` of `own`. Without enough peers that have it: beside its own healthy windows.
Shift shift_of(const Shifts& own, const MetricShifts& metric, const std::vector<const Shifts*>& peers);

}  // namespace kintsugi::orion

/// When a resource is used up: the trend of a metric that its load does not explain, and what is left of it. Pure.
///
/// It answers the same on the scale of seconds ("out of file descriptors in 14 min") and of days ("the disk is full on
/// Friday").
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/base/status.h"

namespace kintsugi::metric_trace {

struct Trend {
  double rate = 0;           ///< growth in units a second (Theil and Sen: the median of all slopes)
  double low = 0, high = 0;  ///< between them is the rate in 95 of 100 such series (from Kendall's variance)
  double level = 0;          ///< value of the line at the last row
  bool certain() const { return low > 0 || high < 0; }
};

/// REQUIRES: as many values as times; times ascend, in seconds. Missing values are left out.
/// kNotFound: fewer than kFewestPoints values.
Result<Trend> trend_of(std::span<const double> times, std::span<const double> values);
inline constexpr size_t kFewestPoints = 20;
/// More values are averaged to so many points: neighbours in time resemble each other, and would count as proof of a
/// trend.
inline constexpr size_t kMostPoints = 50;

/// The values without what the load explains: `slope` for each unit of the load above its mean.
std::vector<double> without_load(std::span<const double> values, std::span<const double> load, double slope);

struct Exhaustion {
  double rate = 0;          ///< units a second, not 0
  double seconds_left = 0;  ///< seconds from the last row to the limit
  /// The soonest that the rate's range allows, and the latest (infinite: it may never be).
  double soonest = 0, latest = 0;
};

/// Empty: the trend is not certain, leads away from the limit, or takes longer than `horizon_s`. A limit below the
/// level is one that the metric falls to (room that is left).
std::optional<Exhaustion> exhaustion(const Trend& trend, double limit, double horizon_s);

}  // namespace kintsugi::metric_trace

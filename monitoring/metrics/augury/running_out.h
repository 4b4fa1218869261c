/// Which resources of a process run out, and when: every metric that has a limit, on two scales of time. Pure.
///
/// Unlike AUGURY it needs no training and no models, so a monitor can afford it for every process every minute, and an
/// operator can check it by hand.
#pragma once

#include <string>
#include <vector>

#include "monitoring/metrics/orion/costs.h"
#include "monitoring/metrics/trace/exhaustion.h"
#include "monitoring/metrics/trace/series.h"

namespace kintsugi::augury {

struct RunsOut {
  std::string metric;
  double now = 0, limit = 0;
  metric_trace::Exhaustion exhaustion;
  std::vector<orion::DearerRegion>
      grows_with;  ///< executions that it goes with, at most kNamedRegions; may be empty
};
inline constexpr size_t kNamedRegions = 2;

/// Rows of the two stretches: ten minutes and half an hour of a row a second. Both have to show the trend: what rises and
/// falls with the load, or fills once after a start, does not do so for long.
inline constexpr double kShortRows = 600, kLongRows = 1800;
/// What grew by less than this share of its limit within the long stretch is left alone.
inline constexpr double kLeastGrowth = 0.02;

/// Above this share of its limit a resource is used up, whatever its trend.
inline constexpr double kUsedUp = 0.98;

/// The soonest first. The stretches are `scale` times as long. Empty when the last life of the process is shorter than the
/// long one.
std::vector<RunsOut> running_out(const metric_trace::Series& series, double horizon_s, double scale = 1);

}  // namespace kintsugi::augury

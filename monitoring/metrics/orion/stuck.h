/// Regions in which nothing ends any more: a hang, a deadlock, a lock. What stands still changes few metrics, but its
/// region is open in row after row, which a healthy time does not show. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "monitoring/metrics/trace/series.h"

namespace kintsugi::orion {

/// How long a region was open without a break.
struct Stretch {
  size_t rows = 0;  ///< length of the longest stretch
  double open = 0;  ///< mean number of executions that were open in it
  size_t seen = 0;  ///< number of rows in which the region was open, in all
};
/// Key: name of a region.
using Stretches = std::map<std::string, Stretch>;

/// A row of which nothing is known breaks no stretch and does not count, up to kMostUnknown of them; a restart does.
Stretches stretches_of(const metric_trace::Series& series);
inline constexpr size_t kMostUnknown = 3;

struct StuckRegion {
  std::string name;
  double seconds = 0;          ///< it was open for so long
  double healthy_seconds = 0;  ///< and in the healthy time for so long at most
  double excess = 0;           ///< how many times as long as what is reported; above 1
};

/// A stretch of fewer rows is none.
inline constexpr size_t kFewestStuckRows = 40;
/// What is reported is so many times as long as the longest healthy stretch; one of fewer rows than kShortest counts as
/// one of so many.
inline constexpr double kStuckMargin = 3;
inline constexpr size_t kShortest = 4;
/// A region that was seen less often in the healthy time is not known: it may be one that takes long.
inline constexpr size_t kFewestSeen = 3;

/// Those open for about as long as the longest come first, and of these the one with the fewest executions: behind one that
/// hangs, others pile up. `healthy`: of the process and its peers.
std::vector<StuckRegion> stuck_regions(const Stretches& now, const std::vector<const Stretches*>& healthy,
                                       std::chrono::nanoseconds period);

}  // namespace kintsugi::orion

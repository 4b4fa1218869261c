/// ORION (Laguna 2012, chapter 6): which metrics of which process are unlike a healthy time, and in which regions of code
/// to look. The text compares raw correlations; what is changed, and why, says healthy_windows.h. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "monitoring/metrics/orion/beside_peers.h"
#include "monitoring/metrics/orion/healthy_windows.h"
#include "monitoring/metrics/orion/regions.h"
#include "monitoring/metrics/orion/shifts.h"
#include "monitoring/metrics/trace/series.h"

namespace kintsugi::orion {

struct OddMetric {
  std::string name;
  std::vector<std::string> aliases;  ///< metrics that always move with it
  /// How far it is off in the windows that count, in deviations: its level beside its peers', or without peers its level and
  /// its relations to other metrics.
  double score = 0;
  bool odd = false;  ///< beside its peers it is beyond what is healthy
  /// The metric is beyond its own healthy windows and goes towards its limit. Only processes without peers are asked.
  bool runs_out = false;
  double healthy = 0, now = 0;       ///< the metric's mean on the healthy trace and in those windows
  std::vector<DearerRegion> dearer;  ///< with whose executions it grows more than then, at most kNamed
};

/// What is unlike before in one process.
struct Finding {
  std::string source;
  /// Metrics at odds, at most kNamed: first those that run out, then those that are odd, and of these the farthest off.
  std::vector<OddMetric> metrics;
  /// Regions that were open more than before, the greatest surplus first, at most kNamed; empty: there is none.
  std::vector<OddRegion> regions;
  /// Regions in which nothing ends any more, at most kNamed. A process that has one is accused.
  std::vector<StuckRegion> stuck;
  Stretches open_before, open_now;  ///< what this is told by
  std::chrono::nanoseconds period{0};
  /// Where to look first, at most kNamed: regions in which nothing ends; the dearer regions of the first metric whose
  /// growth they explain by half; then the regions that were open more than before.
  std::vector<NamedRegion> look_at;
  /// Metrics that had one value on all of the healthy trace, and another one in all of the oddest window. They accuse
  /// nobody: a short healthy trace has seen little.
  std::vector<std::string> moved;
  /// How many times as rare what it does is as what healthy traces ever show; above 1: the process is reported.
  double excess = 0;
  /// So many others its levels are compared with: those of its role, or all other processes where it has fewer than
  /// kFewestPeers of them. What several do at once is no fault of one. 0: all that is known is its own healthy time.
  size_t peers = 0;
  /// Others are compared, and fewer than kFewestPeers of them have its role: nobody else does what it does, so that its own
  /// past is all there is to tell a fault from work that changed. It accuses nobody, unless something runs out or stands
  /// still.
  bool alone = false;
  Shifts shifts;         ///< what its peers are compared with
  size_t processes = 1;  ///< so many are compared
  size_t windows = 0, healthy_windows = 0;
  int64_t from_ns = 0, to_ns = 0;  ///< the oddest window
  double load = 1;                 ///< now, divided by what it was on the healthy trace
  /// The load lies outside of what the healthy trace knows, and relations may differ for that alone.
  bool foreign_load = false;
};

/// A process that cannot be judged.
struct NotJudged {
  std::string source;
  std::string why;
};

struct Localisation {
  /// Those in which something stands still, for the longest time first, and then the one whose metric is farthest off.
  std::vector<Finding> odd;
  /// Those that are as far off, and accuse nobody (Finding::alone), in the same order.
  std::vector<Finding> also_changed;
  std::vector<Finding> healthy;  ///< what was judged and is within what healthy traces show
  std::vector<NotJudged> not_judged;
};

/// Compares every process of `now` with itself in `healthy`. Windows of kSizes rows, or of a quarter of `now` if it is
/// shorter; processes are matched by name.
Localisation localise(const metric_trace::Trace& healthy, const metric_trace::Trace& now);
inline constexpr size_t kSizes[] = {60, 100, 150, 200};
inline constexpr size_t kShortestWindow = 20;

/// Compares one process with itself. Each of `processes` that are compared has a chance of its own to be accused, so one
/// must be farther off the more there are. All its metrics are in the finding. kNotFound: not enough data, and why.
Result<Finding> compare(const metric_trace::Series& healthy, const metric_trace::Series& now,
                        size_t processes = 1);
/// Judges the levels of each beside those of its peers at the same time, if it has enough; then keeps kNamed metrics, and
/// tells who is reported, and who of them is at fault.
Localisation compared_with_peers(std::vector<Finding> findings);

}  // namespace kintsugi::orion

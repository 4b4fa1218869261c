/// Resources that go towards their limit after a healthy time in which they did not. Unlike running_out(), which needs no
/// healthy time, it takes a window of kWindow rows to tell; unlike Augury, it looks at nothing but metrics that have a limit,
/// each by itself: most of what is unlike before is the load or the machine. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "monitoring/metrics/trace/exhaustion.h"
#include "monitoring/metrics/trace/series.h"

namespace kintsugi::augury {

struct Leak {
  int64_t t_ns = 0;  ///< time of the first row that tells
  std::string metric;
  double usual = 0,
         now = 0;  ///< the healthy mean of a window that was nearest to the limit, and that of this window
  double limit = 0;
  double excess = 0;  ///< how far it is beyond that one, in kBeyond of the range of healthy means
  metric_trace::Exhaustion exhaustion;
};

/// So much of the range of healthy windows a window has to be beyond them.
inline constexpr double kBeyond = 0.5;
/// What takes longer to its end than a day is left to running_out().
inline constexpr double kLeakHorizonSeconds = 86400;
inline constexpr size_t kFewestHealthyWindows = 8;

/// The alarms of one process, each where none was of that metric in the row before. A trend that is certain has to lead to
/// the limit, after what the load explains is taken out. `peers`: healthy times of other processes of its role, for what is
/// usual there is usual here. kNotFound: not enough data, and why.
Result<std::vector<Leak>> leaks_of(const metric_trace::Series& healthy, const metric_trace::Series& now,
                                   std::span<const metric_trace::Series> peers = {});

}  // namespace kintsugi::augury

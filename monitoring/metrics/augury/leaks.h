/// Resources that go towards their limit after a healthy time in which they did not. Unlike running_out(), which needs no
/// healthy time, it takes a window of kWindow rows to tell; unlike Augury, it looks at nothing but metrics that have a limit,
/// each by itself: most of what is unlike before is the load or the machine. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "monitoring/metrics/orion/healthy_windows.h"
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

/// One metric in the windows of a healthy time.
struct Usual {
  double slope = 0;          ///< slope for one more of load
  double low = 0, high = 0;  ///< the least and greatest of the windows' means, without what the load explains
};

/// A healthy time of a process, as its leaks and those of its peers are judged by it. It is dear to learn, and is learnt once.
struct HealthyTime {
  std::vector<std::string> names;            ///< names of the columns
  std::vector<std::optional<Usual>> usuals;  ///< by column; nothing: it is hardly known
  orion::Load load;
  size_t windows = 0;
};
HealthyTime learn_usual(const metric_trace::Series& healthy);

/// The alarms of one process, each where none was of that metric in the row before. A trend that is certain has to lead to
/// the limit, after what the load explains is taken out. `peers`: healthy times of other processes of its role, for what is
/// usual there is usual here. kNotFound: not enough data, and why.
Result<std::vector<Leak>> leaks_of(const HealthyTime& healthy, const metric_trace::Series& now,
                                   std::span<const HealthyTime* const> peers = {});

}  // namespace kintsugi::augury

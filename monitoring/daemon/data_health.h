/// The first thing that an operator wants to know: whether all data is whole, and if not, what comes next.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "monitoring/daemon/cluster_watch.h"

namespace kintsugi::monitoring {

struct DataHealth {
  enum class Level { kGood, kWarning, kBad };
  Level level = Level::kGood;
  /// "12 of 1,204 stripes lack a chunk and can be read; they are being repaired, about 40 s left."
  std::string sentence;
  std::string action;  ///< what to do, in a sentence; empty: nothing
};

/// "good", "warning", "bad".
std::string_view name_of(DataHealth::Level level);

/// What holds by the metaserver's last answer; while it is silent, that nothing can be read or written. `wall_ns`: now.
DataHealth data_health(const ClusterWatch& watch, int64_t wall_ns);

/// How long the repairs that run or are queued will take: at the pace of the last minute, or while there is none, if each
/// takes as long as those that run were estimated to take and as many run at a time as now. None: no repair runs, or
/// there is no pace and those that run have already taken longer.
std::optional<Duration> repairs_left(const ClusterWatch& watch, int64_t wall_ns);

}  // namespace kintsugi::monitoring

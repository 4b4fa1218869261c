#include "tracing/anomaly/waiting.h"

#include <algorithm>

namespace kintsugi::anomaly {

std::vector<Waiting> waiting_of(const CallPaths& paths, const WaitNames& names) {
  const auto is_among = [&](PathId path, const std::vector<std::string>& all) {
    return std::ranges::find(all, paths.last_name(path)) != all.end();
  };
  std::vector<Waiting> found(paths.size(), Waiting::kRuns);
  // A path is younger than that of its caller.
  for (PathId path = 0; path < paths.size(); ++path) {
    if (paths.depth(path) == 0) continue;
    if (found[paths.parent(path)] == Waiting::kWaitsForOthers || is_among(path, names.others))
      found[path] = Waiting::kWaitsForOthers;
    else if (is_among(path, names.waits))
      found[path] = Waiting::kWaits;
  }
  return found;
}

PathTotals part_of(PathTotals totals, std::span<const Waiting> waiting, Part part) {
  if (part == Part::kAll) return totals;
  for (PathTotal& total : totals)
    if (waiting[total.path] == Waiting::kWaitsForOthers ||
        (part == Part::kRunning && waiting[total.path] == Waiting::kWaits))
      total.self_ns = 0;
  return totals;
}

}  // namespace kintsugi::anomaly

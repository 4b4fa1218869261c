#include "tracing/anomaly/waiting.h"

#include <algorithm>

namespace kintsugi::anomaly {

std::vector<Waiting> waiting_of(const CallPaths& paths, const WaitNames& names) {
  const auto is_among = [&](PathId path, const std::vector<std::string>& all) {
    return std::ranges::find(all, paths.last_name(path)) != all.end();
  };
  std::vector<Waiting> found(paths.size(), Waiting::kRuns);
  std::vector<bool> books(paths.size());
  const auto keeps_books = [&](PathId path) {
    return std::ranges::any_of(names.aside, [&](const std::string& beginning) {
      return paths.last_name(path).starts_with(beginning);
    });
  };
  // A path is younger than that of its caller.
  for (PathId path = 0; path < paths.size(); ++path) {
    const bool is_called = paths.depth(path) > 0;
    const Waiting caller = is_called ? found[paths.parent(path)] : Waiting::kWaits;
    books[path] = (is_called && books[paths.parent(path)]) || keeps_books(path);
    if (caller == Waiting::kWaitsForOthers || is_among(path, names.others))
      found[path] = Waiting::kWaitsForOthers;
    else if (!is_called || is_among(path, names.waits))
      found[path] = Waiting::kWaits;  // also below books: an event loop that has nothing to do does not run
    else if (books[path])
      found[path] = Waiting::kKeepsBooks;
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

PathTotals calls_of(PathTotals totals, std::span<const Waiting> waiting) {
  std::erase_if(totals, [&](const PathTotal& total) { return waiting[total.path] != Waiting::kRuns; });
  return totals;
}

}  // namespace kintsugi::anomaly

/// Time in which a flow waits: it tells what held the flow up, or only that somebody else was late.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tracing/anomaly/profile.h"

namespace kintsugi::anomaly {

/// Names of functions, as traces have them.
struct WaitNames {
  std::vector<std::string> waits;   ///< a path that ends in one of them waits
  std::vector<std::string> others;  ///< on or below one of them: for a message that somebody else sends
  std::vector<std::string>
      aside;  ///< beginnings of names: on or below such a function, books are kept, unless it waits there
};

/// Of a path. A thread that is in no function waits, too.
enum class Waiting : uint8_t { kRuns, kWaits, kWaitsForOthers, kKeepsBooks };

/// By path. O(paths).
std::vector<Waiting> waiting_of(const CallPaths& paths, const WaitNames& names);

/// What counts of a flow's time.
enum class Part : uint8_t {
  kRunning,  ///< only what it did itself: who runs holds up those who wait
  kOwn,      ///< also what it waited for, but no message of somebody else
  kAll,
};

/// The same totals; time that does not count is 0.
PathTotals part_of(PathTotals totals, std::span<const Waiting> waiting, Part part);

/// The same without paths that wait or keep books: whether a request has these is chance.
PathTotals calls_of(PathTotals totals, std::span<const Waiting> waiting);

}  // namespace kintsugi::anomaly

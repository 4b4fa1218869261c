/// Bounds of what operators may ask of a cluster while it runs. Commands, the console and the metaserver share them.
#pragma once

#include <chrono>
#include <cstdint>

namespace kintsugi {

/// Longest time for which a server can be told to be in maintenance. One that seems to last longer than that and
/// kClockPutRight is over, so that a wall clock that jumps back does not make it endless.
inline constexpr std::chrono::seconds kMaxMaintenance = std::chrono::hours(24);
/// The metaserver's wall clock may be put right by so much, and the longest maintenance is not over.
inline constexpr std::chrono::seconds kClockPutRight = std::chrono::hours(1);

/// Bounds of the limit of repairs at each server, bytes a second each way. With less, the 16 repairs that a server takes
/// part in by default would pass faster than the limit, since no single wait of theirs is longer than 5 s.
inline constexpr uint64_t kLeastRepairLimit = 4ull << 20, kMostRepairLimit = 1ull << 40;

}  // namespace kintsugi

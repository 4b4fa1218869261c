/// What operators may ask of a cluster while it runs: bounds that commands, the console and the metaserver share.
#pragma once

#include <chrono>
#include <cstdint>

namespace kintsugi {

/// Longest time for which a server can be told to be in maintenance. It is also the longest that the metaserver believes
/// in a maintenance that it finds in its store, so that a wall clock that jumps back does not make one endless.
inline constexpr std::chrono::seconds kMaxMaintenance = std::chrono::hours(24);

/// Bounds of the limit of repairs at each server, bytes a second each way. With less, the 16 repairs that a server takes
/// part in by default would pass faster than the limit, since no single wait of theirs is longer than 5 s.
inline constexpr uint64_t kLeastRepairLimit = 4ull << 20, kMostRepairLimit = 1ull << 40;

}  // namespace kintsugi

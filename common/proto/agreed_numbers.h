/// Numbers on which both ends of a call agree. They never change.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kintsugi::proto {

/// A session (common/proto/types.proto, Change) begins its change n only once change n - kMaxChangesUnderWay has ended.
inline constexpr uint64_t kMaxChangesUnderWay = 64;
/// The changes of so many processes that go on with one session are remembered.
inline constexpr uint64_t kGenerations = 4;

/// Servers that a request for the plan of a read (PlanRead) may exclude.
inline constexpr size_t kMaxExcludedFromPlan = 64;

/// Ids of inodes in snapshots have this bit, and no others.
inline constexpr uint64_t kSnapshotBit = uint64_t{1} << 63;

}  // namespace kintsugi::proto

/// Profiles: a flow, or a process, as a vector that can be compared (Mirgorodskiy 2006, sections 5.2.3, 5.2.4 and 5.4).
#pragma once

#include <span>

#include "tracing/anomaly/stack_walk.h"
#include "tracing/flow/flows.h"

namespace kintsugi::anomaly {

/// What one group of events (a flow, a process) did on one call path.
struct PathTotal {
  PathId path = 0;
  int64_t self_ns = 0;  ///< wall-clock time, blocking included, without what was called
  uint64_t bytes = 0;   ///< sent
  int64_t first = 0;    ///< when it was first seen, by the group's clock: see Groups
};

/// Ascending by path.
using PathTotals = std::vector<PathTotal>;

/// Which events are looked at together.
struct Groups {
  size_t count = 0;
  /// By event: its group, or kNone. The time from an event to the next one of its thread is that of its group: a thread
  /// that turns to another flow within a function divides the function's time (figure 5.6).
  std::vector<uint32_t> of;
  /// If given, groups are these flows, and shared work counts for each of the flows that it was done for (section 4.2).
  const flow::Flows* share = nullptr;
  /// If not empty, orders first occurrences instead of the time (a Lamport clock, where hosts' clocks cannot be trusted).
  std::span<const uint32_t> order = {};
};

/// Each flow is a group. Shared work is that of the first flow, unless `replicate`.
/// REQUIRES: `flows` outlives the groups.
Groups groups_by_flow(const flow::Flows& flows, bool replicate = false);
/// Each process is a group.
Groups groups_by_process(const flow::Trace& trace);

/// What each group did on each path. O(events), with a hash of each. Threads whose process has an end_ns continue until
/// then in the function that is open.
std::vector<PathTotals> totals_of(const flow::Trace& trace, const Groups& groups, CallPaths& paths);

/// The same, with time cut into `count` equal fragments of [begin_ns, end_ns): by fragment, then by group.
/// REQUIRES: begin_ns < end_ns, count > 0.
struct Fragments {
  int64_t begin_ns = 0, end_ns = 0;
  uint32_t count = 1;
};
std::vector<std::vector<PathTotals>> totals_of_fragments(const flow::Trace& trace, const Groups& groups,
                                                         CallPaths& paths, const Fragments& fragments);

enum class ProfileKind : uint8_t {
  kTime,           ///< share of the time on each path (5.1, 5.10)
  kCoverage,       ///< 1 for each path that was seen, and for its prefixes (5.11)
  kCommunication,  ///< share of the bytes sent on each path (5.12)
  kComposite,      ///< time and communication, one after the other (section 5.4.3)
  kElapsed,        ///< seconds on each path, which requests of a kind have about as many of
};
std::string_view name_of(ProfileKind kind);

enum class Measure : uint8_t { kTime, kCoverage, kCommunication };

/// One component that is not 0.
struct Component {
  Measure measure = Measure::kTime;
  PathId path = 0;
  double value = 0;
};

/// Ascending by measure, then by path. All values are positive.
using Profile = std::vector<Component>;

/// Time and bytes as shares of all of the group's (elapsed: seconds); empty if it has none.
Profile profile_of(const PathTotals& totals, const CallPaths& paths, ProfileKind kind);

/// d(g, h), the Manhattan length of the difference (5.2): at most 2, of composites 4, of coverages the number of paths, of elapsed
/// times seconds.
double distance(const Profile& g, const Profile& h);

/// The sum of its components: the distance of two profiles is at most that of both.
double length_of(const Profile& profile);

}  // namespace kintsugi::anomaly

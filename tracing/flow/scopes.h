/// Which begin each use and end of a directive continues (Mirgorodskiy 2006, section 4.3.4).
#pragma once

#include "tracing/flow/trace.h"

namespace kintsugi::flow {

/// Flows beyond these are not counted among those that share one piece of work.
inline constexpr size_t kMostSharing = 256;

/// What a use or end was matched with.
struct Continued {
  EventId event = kNone;  ///< the use or end
  EventId head = kNone;   ///< what it labels: the event of the same function before it, or itself
  EventId begin = kNone;  ///< kNone: an end of a value that nobody began
  /// Of an end of a shared attribute: those after the first, which is `begin`. At most kMostSharing.
  std::vector<EventId> further_begins;
};

/// All ends, and those uses that do not open a scope themselves; by event. Within a process by time, within a thread by
/// program order. O(d log d) for d directive events.
std::vector<Continued> match_directives(const Trace& trace);

}  // namespace kintsugi::flow

// A storage cluster that only exists as events, with the operation that each event belongs to: clients that run many
// operations on one thread, a metaserver with group commit, chunkservers with a queue and worker threads, timers whose ids are
// used again. What the flow construction makes of it is compared with that.
#pragma once

#include "tracing/flow/event.h"

namespace kintsugi::flow {

struct WorkloadSettings {
  uint64_t seed = 1;
  size_t concurrent = 8;    ///< operations at a time
  size_t operations = 200;  ///< in all, without heartbeats
};

struct Workload {
  Recorded recorded;
  /// By event: its operation, or kNone for what belongs to nobody (an event loop that waits).
  std::vector<uint32_t> operation;
  /// By operation: its start event.
  std::vector<EventId> start;
};

Workload workload_of(const WorkloadSettings& settings);

/// The directives that a person would write for it.
extern const char* const kWorkloadDirectives;

}  // namespace kintsugi::flow

// A storage cluster that only exists as events, with the operation that each event belongs to: clients that run many
// operations on one thread, a metaserver with group commit, chunkservers with a queue and worker threads, timers whose ids are
// used again. What the flow construction makes of it is compared with that.
#pragma once

#include "tracing/flow/event.h"

namespace kintsugi::flow {

/// What goes wrong in one write, on one chunkserver.
enum class Fault : uint8_t {
  kNone,
  kSlowDisk,       ///< a write blocks for 5 ms
  kSkipsChecksum,  ///< a call is left out that takes no time
  kFreesTwice,     ///< a call is made that no other operation makes
  kSendsAgain,     ///< the answer is sent eight times
};

struct WorkloadSettings {
  uint64_t seed = 1;
  size_t concurrent = 8;    ///< operations at a time
  size_t operations = 200;  ///< in all, without heartbeats
  Fault fault = Fault::kNone;
  size_t faulty = 0;  ///< the how manyth write has it, from 1 on
};

struct Workload {
  Recorded recorded;
  /// By event: its operation, or kNone for what belongs to nobody (an event loop that waits).
  std::vector<uint32_t> operation;
  /// By operation: its start event.
  std::vector<EventId> start;
  uint32_t faulty = kNone;  ///< the operation that has the fault
};

Workload workload_of(const WorkloadSettings& settings);

/// The directives that a person would write for it.
extern const char* const kWorkloadDirectives;

}  // namespace kintsugi::flow

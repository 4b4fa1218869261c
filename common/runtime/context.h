/// What one piece of work carries along: deadline, trace, recorder, the connection that it came over, fault points.
///
/// Passed by value as the first parameter of every coroutine that does work for a request; an RPC carries it
/// to the next server (common/rpc). sight::Module derives the context of a nested region from it.
#pragma once

#include <cstdint>

#include "common/runtime/clock.h"

namespace kintsugi {

class TraceRecorder;  // common/runtime/trace_recorder.h

namespace runtime {
class FaultPoints;
}

struct TraceContext {
  uint64_t trace_id = 0;  ///< identifies one user operation or background job; 0: none yet
  uint64_t span_id = 0;   ///< the module that encloses this work; parent of what is nested
  uint64_t path = 0;      ///< hash of the calling context (names of all enclosing modules, outermost first)
};

namespace runtime {

/// Names what is open in a recorder (trace_recorder.h). A stale one, of something that was closed, is harmless:
/// nothing comes of it.
struct LiveHandle {
  uint32_t slot = 0;  ///< slot of the record; 0: there is none
  uint32_t generation = 0;
};

}  // namespace runtime

struct Context {
  TimePoint deadline = TimePoint::max();
  TraceContext trace;
  TraceRecorder* recorder = nullptr;  ///< recorder of the daemon; null records nothing
  /// The connection on which the request arrived (rpc::Server::on_connection_ended); 0: no connection.
  uint64_t connection = 0;
  runtime::LiveHandle live;  ///< the innermost open region
  /// Fault points of the process, when the work came in a request; null: no faults are injected.
  runtime::FaultPoints* faults = nullptr;
  /// For whom this work is followed into the processes that it reaches, as whoever traces this one has it: a bit for each of them
  /// (common/rpc/follower.h). 0: for nobody.
  uint32_t followed = 0;

  Context with_deadline(TimePoint earlier) const {
    Context copy = *this;
    if (earlier < copy.deadline) copy.deadline = earlier;
    return copy;
  }
};

}  // namespace kintsugi

/// What one line of a log says of the states of a process (Tan 2008, section 4). Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace kintsugi::blacksheep {

enum class EventKind : uint8_t {
  kNoOp,           ///< the line says nothing of states
  kStart,          ///< an execution of `state` begins
  kDeferredStart,  ///< an execution begins, and only its stop will tell which state it was in
  kStop,           ///< an execution ends
  kDeferredStop,   ///< the oldest deferred start ends, and was in `state`
  kInstant,        ///< something happened at once
  kError,          ///< as kInstant, of the state "Error"
  kBegin,          ///< the process began: nothing is open
  kDropped,        ///< `count` executions were not logged
};

/// Views into the line.
struct Event {
  EventKind kind = EventKind::kNoOp;
  int64_t t_ns = 0;  ///< wall time
  std::string_view state;
  std::string_view execution;  ///< which one; empty: executions of a state are told apart by order
  uint64_t count = 0;          ///< of kDropped
};

/// A form of logs: one for each kind of program. `last_ns` is the time of the line before.
using Grammar = Event (*)(std::string_view line, int64_t last_ns);

/// The activity log of our daemons (common/log/activity_log.h has the form of its lines).
Event activity_event(std::string_view line, int64_t last_ns);

}  // namespace kintsugi::blacksheep

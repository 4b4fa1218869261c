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
  kError,          ///< something went wrong at once: an instant of the state "Error"
  kBegin,          ///< the process began: nothing is open
  kDropped,        ///< `count` executions were not logged
};

/// Views into the line.
struct Event {
  EventKind kind = EventKind::kNoOp;
  int64_t t_ns = 0;  ///< wall time
  std::string_view state;
  /// Name of the execution; empty: executions of a state are told apart by order.
  std::string_view execution;
  uint64_t count = 0;  ///< number of dropped events, for kDropped
};

/// A form of logs: one for each kind of program. `last_ns` is the time of the line before.
using Grammar = Event (*)(std::string_view line, int64_t last_ns);

/// The activity log of a daemon of ours. Stops end with the outcome; other words at the end of a line are for people.
///
/// ```
/// 2026-11-22T00:36:37.123456+0000 activity begin pid=412
/// 2026-11-22T00:36:37.123456+0000 activity start chunkserver.read_chunk 7f3a12 chunk=81:3
/// 2026-11-22T00:36:37.234567+0000 activity stop chunkserver.read_chunk 7f3a12 ok
/// 2026-11-22T00:36:37.234567+0000 activity instant chunkserver.delete_chunk chunk=81:3
/// 2026-11-22T00:36:37.234567+0000 activity error disk 2 is dropped
/// 2026-11-22T00:36:38.000001+0000 activity dropped 17
/// ```
Event activity_event(std::string_view line, int64_t last_ns);

}  // namespace kintsugi::blacksheep

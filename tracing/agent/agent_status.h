/// What the agent says of a recording.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "tracing/records/format.h"

namespace kintsugi::tracing {

enum class Phase {
  kIdle,       ///< nothing was traced yet
  kPreparing,  ///< the binary is looked through, memory is made
  kWaiting,    ///< waits for the start event
  kRecording,
  kEnded,   ///< the trace is there
  kFailed,  ///< `failure` says why
};

struct AgentStatus {
  Phase phase = Phase::kIdle;
  std::string path;  ///< file of the trace
  Status failure;
  Duration left{};  ///< until the code is given back, or until the owner's time is over
  uint32_t functions = 0, patched = 0, met = 0;
  std::string began;          ///< what began the recording, or why nothing has
  int64_t began_unix_ms = 0;  ///< when; 0: it has not begun
  uint64_t owner = 0;         ///< the recording is told as this one has it; 0: as the process has it
  uint32_t owners = 0;        ///< for how many the process records now
  End end = End::kNone;       ///< why the recording ended

  bool is_busy() const { return phase >= Phase::kPreparing && phase <= Phase::kRecording; }
};

}  // namespace kintsugi::tracing

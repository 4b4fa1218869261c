/// A command that has itself recorded, and what it asks for followed into the servers that it reaches.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/status.h"
#include "common/proto/trace.pb.h"

namespace kintsugi::tracing {

/// Servers whose recordings nobody ends, because the command was killed, end them after this time.
inline constexpr auto kOwnRecordingLimit = std::chrono::seconds(60);

/// Returns once this process records. A program without sleds does not: what it asks for is followed all the same.
/// kAlreadyExists: somebody traces this process in another way.
Status begin_own_recording(uint64_t owner, uint32_t hops);
/// Ends the owner's recording of this process, and says what a server says of its own: where the trace lies, or why there is none, and into
/// whom calls were followed. REQUIRES: it was begun.
proto::TraceResponse end_own_recording(uint64_t owner);

}  // namespace kintsugi::tracing

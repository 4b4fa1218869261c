/// The signal by which a process that answers no calls is asked to record itself.
#pragma once

namespace kintsugi::tracing {

/// A real-time signal. Its value, if it has one, says for how many milliseconds. To a process that has no handler for it, it is the
/// end: whoever sends it looks first (SigCgt in /proc/PID/status).
inline constexpr int kTraceSignal = 47;

}  // namespace kintsugi::tracing

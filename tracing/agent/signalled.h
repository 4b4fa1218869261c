/// A recording that begins with a signal: for a process whose event loop stands still, so that it answers no call.
#pragma once

namespace kintsugi::tracing {

/// From now on this process records itself, all functions, when kTraceSignal comes (records/trace_signal.h): a thread is parked that waits
/// for it. Called again it does nothing. A process that cannot have that thread goes without.
void listen_for_signal();

}  // namespace kintsugi::tracing

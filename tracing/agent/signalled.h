/// A recording that begins with a signal: for a process whose event loop stands still, so that it answers no call.
#pragma once

namespace kintsugi::tracing {

/// Blocks kTraceSignal in this thread, and in those that it starts from now on: no call of theirs is interrupted, and none that stands
/// still in the kernel gets the signal in place of the one that listens. To be called before a process has other threads.
void block_trace_signal();

/// From now on this process records itself, all functions, when kTraceSignal comes (records/trace_signal.h): a thread is parked that waits
/// for it. Called again it does nothing. A process that cannot have that thread goes without.
void listen_for_signal();

}  // namespace kintsugi::tracing

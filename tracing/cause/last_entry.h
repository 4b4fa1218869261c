/// What a process did last (Mirgorodskiy 2006, section 5.3.1): for one that crashed or froze, a likely cause.
#pragma once

#include "tracing/anomaly/stack_walk.h"
#include "tracing/flow/flows.h"

namespace kintsugi::cause {

struct LastEntry {
  uint32_t process = 0;
  flow::EventId event = flow::kNone;  ///< the last one of the process, whichever thread it is of
  anomaly::PathId path = 0;           ///< the function of that event, and who called it
  bool returned = false;              ///< the function had returned; else it was running
};

/// Of every process that has events, in their order. `idle`: functions in which threads of control wait, or have nothing to do. If another
/// one of the process ended while it ran, that one counts; behind it stands the idle one that was left last by then: a coroutine that
/// called what has no room for tracing.
std::vector<LastEntry> last_entries(const flow::Trace& trace, anomaly::CallPaths& paths,
                                    std::span<const std::string> idle = {});
/// The same of the events of one flow.
std::vector<LastEntry> last_entries(const flow::Trace& trace, const flow::Flows& flows, flow::FlowId flow,
                                    anomaly::CallPaths& paths);

}  // namespace kintsugi::cause

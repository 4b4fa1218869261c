/// From traces of processes to flows: what belongs to which request.
#pragma once

#include <span>

#include "tracing/events/named_trace.h"
#include "tracing/flow/flows.h"

namespace kintsugi::tracing {

flow::Recorded events_of(std::span<const NamedTrace> traces);

struct Separated {
  flow::Trace trace;
  flow::Flows flows;
};
/// Separated by what is known of our daemons: frames, coroutines, event loops. Errors: those of flow::Trace::from.
Result<Separated> separate(std::span<const NamedTrace> traces);

}  // namespace kintsugi::tracing

/// DPM's rules, as what our flows are compared with (Mirgorodskiy 2006, sections 2.4 and 4.4; Miller 1988): a receive
/// belongs to its send, and so does only the next send of its thread.
#pragma once

#include "tracing/flow/flows.h"

namespace kintsugi::flow {

/// A second send after one receive starts a flow (Reason::kThread). Events that are no messages belong to the event before
/// them.
Flows build_flows_as_dpm(const Trace& trace, const Matching& matching, std::span<const EventId> starts = {});

}  // namespace kintsugi::flow

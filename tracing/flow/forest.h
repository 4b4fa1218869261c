/// Turns one parent for each event into flows. For flows.cc and dpm.cc.
#pragma once

#include "tracing/flow/flows.h"
#include "tracing/flow/scopes.h"

namespace kintsugi::flow {

struct Forest {
  explicit Forest(size_t events) : parent(events, kNone), reason(events, Reason::kThread) {}

  void root(EventId event, Reason because) {
    parent[event] = kNone;
    reason[event] = because;
  }

  std::vector<EventId> parent;
  std::vector<Reason> reason;  ///< why an event has no parent, of those without one
};

/// Numbers the trees, cuts circles (which only a trace that contradicts itself has), and finds the joins.
Flows flows_of(const Trace& trace, const Matching& matching, Forest forest);

/// Fills `shared` and `shared_of`.
void share_work(Flows& flows, std::span<const Continued> continued);

}  // namespace kintsugi::flow

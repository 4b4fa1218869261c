#include "tracing/flow/dpm.h"

#include "tracing/flow/forest.h"

namespace kintsugi::flow {

Flows build_flows_as_dpm(const Trace& trace, const Matching& matching, std::span<const EventId> starts) {
  std::vector<bool> start(trace.size());
  for (EventId id : starts)
    start[id] = true;
  std::vector<EventId> send_of(trace.size(), kNone);
  for (const Unit& unit : matching.units)
    if (unit.recv != kNone) send_of[unit.recv] = unit.send;
  Forest forest(trace.size());
  for (const Thread& thread : trace.threads()) {
    EventId open = kNone;  // what the next send belongs to
    for (EventId id : thread.events) {
      const Kind kind = trace.event(id).kind;
      if (start[id] || kind == Kind::kStart) {
        forest.root(open = id, Reason::kStart);
      } else if (kind == Kind::kRecv) {
        forest.parent[id] = send_of[id];
        forest.reason[id] = Reason::kUnmatchedReceive;
        open = id;
      } else if (kind == Kind::kSend) {
        forest.parent[id] = open;
        open = kNone;
      } else {
        forest.parent[id] = trace.previous(id);
      }
    }
  }
  return flows_of(trace, matching, std::move(forest));
}

}  // namespace kintsugi::flow

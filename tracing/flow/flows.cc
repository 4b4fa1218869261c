#include "tracing/flow/flows.h"

#include "tracing/flow/forest.h"

namespace kintsugi::flow {
namespace {

class Construction {
 public:
  Construction(const Trace& trace, const Matching& matching, const FlowSettings& settings)
      : trace_(trace),
        matching_(matching),
        forest_(trace.size()),
        start_(trace.size()),
        send_of_(trace.size(), kNone),
        continued_by_(trace.size(), kNone),
        idle_(trace.functions().size()) {
    if (settings.directives) continued_ = match_directives(trace);
    // Several directives at one place: the last one that is matched decides.
    for (uint32_t i = 0; i < continued_.size(); ++i) {
      uint32_t& by = continued_by_[continued_[i].head];
      if (by == kNone || continued_[i].begin != kNone) by = i;
    }
    // Units stand in the order of the stream: the last piece of a receive decides where its thread continues.
    for (const Unit& unit : matching.units)
      if (unit.recv != kNone) send_of_[unit.recv] = unit.send;
    for (EventId start : settings.starts)
      start_[start] = true;
    for (FunctionId function : settings.idle)
      idle_[function] = true;
  }

  Flows run() {
    for (const Thread& thread : trace_.threads()) {
      EventId idle = kNone;  // where this thread waited for the first time
      for (EventId id : thread.events)
        decide(id, idle);
    }
    Flows flows = flows_of(trace_, matching_, std::move(forest_));
    share_work(flows, continued_);
    return flows;
  }

 private:
  void decide(EventId id, EventId& idle) {
    const Event& event = trace_.event(id);
    if (start_[id] || event.kind == Kind::kStart) {
      forest_.root(id, Reason::kStart);
    } else if (continued_by_[id] != kNone) {
      forest_.parent[id] = continued_[continued_by_[id]].begin;
      forest_.reason[id] = Reason::kUnmatchedEnd;
    } else if (event.kind == Kind::kLost) {
      forest_.root(id, Reason::kAfterLoss);
    } else if (event.kind == Kind::kEntry && idle_[event.function]) {
      forest_.parent[id] = idle;
      forest_.reason[id] = Reason::kIdle;
      if (idle == kNone) idle = id;
    } else if (event.kind == Kind::kRecv) {
      forest_.parent[id] = send_of_[id];
      forest_.reason[id] = Reason::kUnmatchedReceive;
    } else {
      forest_.parent[id] = trace_.previous(id);
    }
  }

  const Trace& trace_;
  const Matching& matching_;
  Forest forest_;
  std::vector<bool> start_;       ///< by event
  std::vector<EventId> send_of_;  ///< by receive
  std::vector<Continued> continued_;
  std::vector<uint32_t> continued_by_;  ///< by event: a place in continued_
  std::vector<bool> idle_;              ///< by function
};

}  // namespace

Flows build_flows(const Trace& trace, const Matching& matching, const FlowSettings& settings) {
  return Construction(trace, matching, settings).run();
}

}  // namespace kintsugi::flow

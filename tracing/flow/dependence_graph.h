/// The parallel dynamic dependence graph: what could affect what (Mirgorodskiy 2006, section 4.1).
///
/// Nodes are events. An edge leads from each event to the next one of its thread, from each send to the receives of its
/// bytes, and, where directives say so, from a begin to what continues it (transformation 2, section 4.3.1).
#pragma once

#include <span>

#include "tracing/flow/matching.h"
#include "tracing/flow/scopes.h"

namespace kintsugi::flow {

class DependenceGraph {
 public:
  /// `directives` may be empty: then it is the graph of definition 6.
  DependenceGraph(const Trace& trace, const Matching& matching, std::span<const Continued> directives = {});

  size_t size() const { return next_.size(); }
  /// The next event of its thread, or kNone.
  EventId next(EventId event) const { return next_[event]; }
  EventId previous(EventId event) const { return previous_[event]; }
  /// What it reaches by messages and directives, ascending.
  std::span<const EventId> across(EventId event) const { return out_.of(event); }
  /// What reaches it by messages and directives, ascending.
  std::span<const EventId> across_into(EventId event) const { return in_.of(event); }
  size_t in_degree(EventId event) const { return (previous_[event] != kNone) + in_.of(event).size(); }

  /// u happened before v, or is v. O(n).
  bool happened_before(EventId u, EventId v) const;
  /// Chop(u, v): all events that u reaches and that reach v, ascending; none if u does not reach v. O(n).
  std::vector<EventId> chop(EventId u, EventId v) const;
  /// Numbers such that whatever happened before an event has a smaller one (Lamport 1978); 1 of the first. By event.
  /// Errors: kCorrupt (the trace contradicts itself: an event happened before itself).
  Result<std::vector<uint32_t>> lamport_clocks() const;

 private:
  /// Edges by one of their ends, each list ascending.
  struct Edges {
    std::vector<uint32_t> begin;
    std::vector<EventId> ends;
    std::span<const EventId> of(EventId event) const {
      return std::span<const EventId>(ends).subspan(begin[event], begin[event + 1] - begin[event]);
    }
  };
  static Edges edges_of(size_t events, std::vector<std::pair<EventId, EventId>> pairs);
  std::vector<bool> reached(EventId from, const std::vector<EventId>& along, const Edges& across) const;

  std::vector<EventId> previous_, next_;
  Edges out_, in_;
};

}  // namespace kintsugi::flow

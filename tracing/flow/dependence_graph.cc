#include "tracing/flow/dependence_graph.h"

#include <algorithm>

namespace kintsugi::flow {

DependenceGraph::DependenceGraph(const Trace& trace, const Matching& matching,
                                 std::span<const Continued> directives)
    : previous_(trace.size()), next_(trace.size(), kNone) {
  for (EventId id = 0; id < trace.size(); ++id) {
    previous_[id] = trace.previous(id);
    if (previous_[id] != kNone) next_[previous_[id]] = id;
  }
  std::vector<std::pair<EventId, EventId>> forward, backward;
  const auto add = [&](EventId from, EventId to) {
    if (from == kNone || to == kNone) return;
    forward.emplace_back(from, to);
    backward.emplace_back(to, from);
  };
  for (const Unit& unit : matching.units)
    add(unit.send, unit.recv);
  for (const Continued& one : directives) {
    add(one.begin, one.head);
    for (EventId begin : one.further_begins)
      add(begin, one.head);
  }
  out_ = edges_of(trace.size(), std::move(forward));
  in_ = edges_of(trace.size(), std::move(backward));
}

DependenceGraph::Edges DependenceGraph::edges_of(size_t events,
                                                 std::vector<std::pair<EventId, EventId>> pairs) {
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  Edges edges{.begin = std::vector<uint32_t>(events + 1)};
  edges.ends.reserve(pairs.size());
  for (const auto& [from, to] : pairs) {
    ++edges.begin[from + 1];
    edges.ends.push_back(to);
  }
  for (size_t i = 1; i <= events; ++i)
    edges.begin[i] += edges.begin[i - 1];
  return edges;
}

std::vector<bool> DependenceGraph::reached(EventId from, const std::vector<EventId>& along,
                                           const Edges& across) const {
  std::vector<bool> seen(size());
  std::vector<EventId> open{from};
  seen[from] = true;
  while (!open.empty()) {
    const EventId at = open.back();
    open.pop_back();
    const auto reach = [&](EventId to) {
      if (to == kNone || seen[to]) return;
      seen[to] = true;
      open.push_back(to);
    };
    reach(along[at]);
    for (EventId to : across.of(at))
      reach(to);
  }
  return seen;
}

bool DependenceGraph::happened_before(EventId u, EventId v) const {
  return reached(u, next_, out_)[v];
}

std::vector<EventId> DependenceGraph::chop(EventId u, EventId v) const {
  const std::vector<bool> after = reached(u, next_, out_), before = reached(v, previous_, in_);
  std::vector<EventId> both;
  for (EventId id = 0; id < size(); ++id)
    if (after[id] && before[id]) both.push_back(id);
  return both;
}

Result<std::vector<uint32_t>> DependenceGraph::lamport_clocks() const {
  std::vector<uint32_t> clock(size(), 1), waits(size());
  std::vector<EventId> open;
  for (EventId id = 0; id < size(); ++id) {
    waits[id] = static_cast<uint32_t>(in_degree(id));
    if (waits[id] == 0) open.push_back(id);
  }
  size_t done = 0;
  for (; !open.empty(); ++done) {
    const EventId at = open.back();
    open.pop_back();
    const auto reach = [&](EventId to) {
      clock[to] = std::max(clock[to], clock[at] + 1);
      if (--waits[to] == 0) open.push_back(to);
    };
    if (next_[at] != kNone) reach(next_[at]);
    for (EventId to : out_.of(at))
      reach(to);
  }
  if (done < size())
    return Status(Code::kCorrupt, "the trace contradicts itself: an event happened before itself");
  return clock;
}

}  // namespace kintsugi::flow

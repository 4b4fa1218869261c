#include "tracing/flow/forest.h"

#include <algorithm>

namespace kintsugi::flow {
namespace {

/// Finds the root of every event; each event is walked over once.
class RootSearch {
 public:
  RootSearch(const Trace& trace, Forest& forest)
      : trace_(trace), forest_(forest), root_(trace.size(), kNone), walk_(trace.size(), kNone) {}

  std::vector<EventId> all() {
    for (EventId id = 0; id < root_.size(); ++id)
      if (root_[id] == kNone) walk_from(id);
    return std::move(root_);
  }

 private:
  void walk_from(EventId start) {
    path_.clear();
    EventId at = start, found = kNone;
    while (found == kNone) {
      if (root_[at] != kNone)
        found = root_[at];
      else if (walk_[at] == start)
        found = cut_circle_at(at);
      else {
        walk_[at] = start;
        path_.push_back(at);
        if (forest_.parent[at] == kNone)
          found = at;
        else
          at = forest_.parent[at];
      }
    }
    for (EventId id : path_)
      root_[id] = found;
  }

  /// A thread's own order has no circles, so some other edge closes this one: the event it enters starts a flow.
  EventId cut_circle_at(EventId at) {
    while (forest_.parent[at] == trace_.previous(at))
      at = forest_.parent[at];
    forest_.root(at, Reason::kContradiction);
    return at;
  }

  const Trace& trace_;
  Forest& forest_;
  std::vector<EventId> root_, walk_;  ///< by event; the walk that came by
  std::vector<EventId> path_;
};

void find_joins(const Trace& trace, const Matching& matching, Flows& flows) {
  const auto join = [&](EventId from, EventId to) {
    if (from != kNone && to != kNone && flows.parent[to] != from && flows.of[from] == flows.of[to])
      flows.joins.push_back({from, to});
  };
  for (const Unit& unit : matching.units)
    join(unit.send, unit.recv);
  for (EventId id = 0; id < trace.size(); ++id)
    if (flows.parent[id] != kNone) join(trace.previous(id), id);
  std::sort(flows.joins.begin(), flows.joins.end(),
            [](const Join& a, const Join& b) { return std::tie(a.to, a.from) < std::tie(b.to, b.from); });
}

/// Every event is part of what its parent is part of, unless it begins shared work itself.
void inherit(Flows& flows, std::vector<bool>& known) {
  std::vector<EventId> path;
  for (EventId id = 0; id < flows.of.size(); ++id) {
    EventId at = id;
    for (; !known[at] && flows.parent[at] != kNone; at = flows.parent[at])
      path.push_back(at);
    const uint32_t work = flows.shared_of[at];
    for (; !path.empty(); path.pop_back()) {
      flows.shared_of[path.back()] = work;
      known[path.back()] = true;
    }
    known[at] = true;
  }
}

}  // namespace

Flows flows_of(const Trace& trace, const Matching& matching, Forest forest) {
  const std::vector<EventId> root = RootSearch(trace, forest).all();
  Flows flows;
  std::vector<FlowId> number(trace.size(), kNone);
  for (EventId id = 0; id < trace.size(); ++id) {
    if (root[id] != id) continue;
    number[id] = static_cast<FlowId>(flows.flows.size());
    flows.flows.push_back({.root = id, .reason = forest.reason[id]});
  }
  flows.of.resize(trace.size());
  for (EventId id = 0; id < trace.size(); ++id) {
    flows.of[id] = number[root[id]];
    ++flows.flows[flows.of[id]].events;
  }
  flows.parent = std::move(forest.parent);
  find_joins(trace, matching, flows);
  return flows;
}

void share_work(Flows& flows, std::span<const Continued> continued) {
  std::vector<bool> known;
  for (const Continued& one : continued) {
    // A start event, or another directive beside it, may have decided otherwise.
    if (one.further_begins.empty() || flows.parent[one.head] != one.begin) continue;
    SharedWork work{.end = one.head};
    for (EventId begin : one.further_begins)
      work.others.push_back(flows.of[begin]);
    std::sort(work.others.begin(), work.others.end());
    work.others.erase(std::unique(work.others.begin(), work.others.end()), work.others.end());
    std::erase(work.others, flows.of[one.head]);
    if (work.others.empty()) continue;
    if (flows.shared_of.empty()) {
      flows.shared_of.assign(flows.of.size(), kNone);
      known.assign(flows.of.size(), false);
    }
    flows.shared_of[one.head] = static_cast<uint32_t>(flows.shared.size());
    known[one.head] = true;
    flows.shared.push_back(std::move(work));
  }
  if (flows.shared.empty()) return;
  inherit(flows, known);
  for (SharedWork& work : flows.shared)
    if (const EventId parent = flows.parent[work.end]; parent != kNone) work.within = flows.shared_of[parent];
}

std::vector<FlowId> Flows::others_of(EventId event) const {
  std::vector<FlowId> others;
  if (shared_of.empty()) return others;
  uint32_t work = shared_of[event];
  for (size_t nested = 0; work != kNone && nested < kMostNested; ++nested, work = shared[work].within)
    others.insert(others.end(), shared[work].others.begin(), shared[work].others.end());
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  std::erase(others, of[event]);
  return others;
}

}  // namespace kintsugi::flow

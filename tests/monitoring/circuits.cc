#include "tests/monitoring/circuits.h"

#include <algorithm>
#include <map>
#include <set>

#include "monitoring/progress/counts/dominators.h"

namespace kintsugi::progress {
namespace {

/// Johnson's search: all circuits through one start after another, among the nodes that come after it.
class CircuitSearch {
 public:
  CircuitSearch(const Successors& graph, size_t limit)
      : graph_(graph), limit_(limit), blocked_(graph.size()), blocking_(graph.size()) {}

  std::optional<std::vector<std::vector<uint32_t>>> find() {
    for (start_ = 0; start_ < graph_.size() && found_.size() <= limit_; start_++) {
      Successors rest(graph_.size());
      for (uint32_t from = start_; from < graph_.size(); from++)
        for (const uint32_t to : graph_[from])
          if (to >= start_) rest[from].push_back(to);
      components_ = strong_components(rest);
      std::fill(blocked_.begin(), blocked_.end(), false);
      for (std::set<uint32_t>& each : blocking_)
        each.clear();
      extend_by(start_);
    }
    if (found_.size() > limit_) return std::nullopt;
    return std::move(found_);
  }

 private:
  /// Only nodes of the start's component can close a circuit.
  bool is_inside(uint32_t node) const {
    return node >= start_ && components_.of[node] == components_.of[start_];
  }
  /// True: the path closes a circuit through the node.
  bool extend_by(uint32_t node) {
    bool closes = false;
    path_.push_back(node);
    blocked_[node] = true;
    for (const uint32_t to : graph_[node]) {
      if (found_.size() > limit_) break;
      if (!is_inside(to)) continue;
      if (to == start_) {
        closes = true;
        found_.push_back(path_);
      } else if (!blocked_[to]) {
        closes = extend_by(to) || closes;
      }
    }
    if (closes) {
      unblock(node);
    } else {
      for (const uint32_t to : graph_[node])
        if (is_inside(to)) blocking_[to].insert(node);
    }
    path_.pop_back();
    return closes;
  }
  void unblock(uint32_t node) {
    std::vector<uint32_t> open{node};
    while (!open.empty()) {
      const uint32_t next = open.back();
      open.pop_back();
      if (!blocked_[next]) continue;
      blocked_[next] = false;
      open.insert(open.end(), blocking_[next].begin(), blocking_[next].end());
      blocking_[next].clear();
    }
  }

  const Successors& graph_;
  const size_t limit_;
  uint32_t start_ = 0;
  Components components_;  ///< components of the nodes from start_ on
  std::vector<bool> blocked_;
  std::vector<std::set<uint32_t>> blocking_;  ///< index: node; the nodes that become free when it does
  std::vector<uint32_t> path_;
  std::vector<std::vector<uint32_t>> found_;
};

}  // namespace

std::optional<std::vector<std::vector<uint32_t>>> circuits(const Successors& graph, size_t limit) {
  return CircuitSearch(graph, limit).find();
}

std::optional<std::vector<Loop>> merged_circuits(const Successors& graph,
                                                 const std::vector<uint32_t>& entries, size_t limit) {
  const auto all = circuits(graph, limit);
  if (!all) return std::nullopt;
  const std::vector<uint32_t> dominator = dominators(graph, entries);
  const DepthFirst walk(graph, entries);
  std::map<uint32_t, Loop> by_entry;
  for (const std::vector<uint32_t>& circuit : *all) {
    uint32_t entry = circuit.front();
    for (const uint32_t node : circuit)
      if (walk.position[node] < walk.position[entry]) entry = node;
    Loop& loop = by_entry[entry];
    loop.entry = entry;
    loop.irreducible = loop.irreducible || std::any_of(circuit.begin(), circuit.end(), [&](uint32_t node) {
                         return !dominates(dominator, entry, node);
                       });
    loop.nodes.insert(loop.nodes.end(), circuit.begin(), circuit.end());
    for (size_t i = 0; i < circuit.size(); i++)
      if (circuit[(i + 1) % circuit.size()] == entry) loop.backedges.emplace_back(circuit[i], entry);
  }
  std::vector<Loop> loops;
  for (auto& [entry, loop] : by_entry) {
    const auto unique = [](auto& list) {
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    };
    unique(loop.nodes);
    unique(loop.backedges);
    loops.push_back(std::move(loop));
  }
  sort_by_nesting(loops);
  return loops;
}

void close_under_nesting(std::vector<Loop>& loops) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Loop& outer : loops)
      for (const Loop& inner : loops) {
        if (&outer == &inner || !outer.contains(inner.entry)) continue;
        std::vector<uint32_t> united;
        std::set_union(outer.nodes.begin(), outer.nodes.end(), inner.nodes.begin(), inner.nodes.end(),
                       std::back_inserter(united));
        if (united.size() == outer.nodes.size()) continue;
        outer.nodes = std::move(united);
        changed = true;
      }
  }
  sort_by_nesting(loops);
}

}  // namespace kintsugi::progress

#include "monitoring/progress/loops.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

namespace kintsugi::progress {
namespace {

constexpr uint32_t kNone = ~0u;

Successors reversed(const Successors& graph) {
  Successors result(graph.size());
  for (uint32_t from = 0; from < graph.size(); from++)
    for (const uint32_t to : graph[from])
      result[to].push_back(from);
  return result;
}

/// Depth first from `entries`, then from all that is left, in their order: the last node comes first.
struct DepthFirst {
  std::vector<uint32_t> order;     ///< reverse postorder
  std::vector<uint32_t> position;  ///< in it
  std::vector<bool> is_root;       ///< has an edge from the virtual root

  DepthFirst(const Successors& graph, const std::vector<uint32_t>& entries)
      : position(graph.size(), kNone), is_root(graph.size(), false) {
    std::vector<uint8_t> seen(graph.size(), 0);
    std::vector<std::pair<uint32_t, size_t>> calls;
    const auto visit = [&](uint32_t start) {
      is_root[start] = true;
      if (seen[start]) return;
      seen[start] = 1;
      calls.emplace_back(start, 0);
      while (!calls.empty()) {
        auto& [node, next] = calls.back();
        if (next == graph[node].size()) {
          order.push_back(node);
          calls.pop_back();
          continue;
        }
        const uint32_t to = graph[node][next++];
        if (seen[to]) continue;
        seen[to] = 1;
        calls.emplace_back(to, 0);
      }
    };
    for (const uint32_t entry : entries)
      if (entry < graph.size()) visit(entry);
    for (uint32_t node = 0; node < graph.size(); node++)
      if (!seen[node]) visit(node);
    std::reverse(order.begin(), order.end());
    for (uint32_t i = 0; i < order.size(); i++)
      position[order[i]] = i;
  }
};

bool dominates(const std::vector<uint32_t>& dominator, uint32_t above, uint32_t node) {
  while (node != above) {
    if (dominator[node] == node) return false;
    node = dominator[node];
  }
  return true;
}

/// Nodes that reach `tails` without passing the entry, which is among them.
std::vector<uint32_t> body_of(const Successors& predecessors, uint32_t entry,
                              const std::vector<uint32_t>& tails, std::vector<uint32_t>& mark,
                              uint32_t stamp) {
  std::vector<uint32_t> body{entry}, open;
  mark[entry] = stamp;
  const auto add = [&](uint32_t node) {
    if (mark[node] == stamp) return;
    mark[node] = stamp;
    body.push_back(node);
    open.push_back(node);
  };
  for (const uint32_t tail : tails)
    add(tail);
  while (!open.empty()) {
    const uint32_t node = open.back();
    open.pop_back();
    for (const uint32_t from : predecessors[node])
      add(from);
  }
  std::sort(body.begin(), body.end());
  return body;
}

/// Outer ones first: of nested loops the larger; the rest in the order of their entries.
void sort_by_nesting(std::vector<Loop>& loops) {
  std::sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) {
    return a.nodes.size() != b.nodes.size() ? a.nodes.size() > b.nodes.size() : a.entry < b.entry;
  });
}

/// Cycles without an entry that dominates them: once the backedges of the natural loops are gone, whatever is still strongly connected.
void add_irreducible(const Successors& graph, const std::set<std::pair<uint32_t, uint32_t>>& backedges,
                     std::vector<Loop>& loops) {
  Successors rest(graph.size());
  for (uint32_t from = 0; from < graph.size(); from++)
    for (const uint32_t to : graph[from])
      if (!backedges.contains({from, to})) rest[from].push_back(to);
  const Components components = strong_components(rest);
  const Successors predecessors = reversed(graph);
  for (const std::vector<uint32_t>& members : components.members()) {
    if (members.size() < 2) continue;
    Loop loop{.entry = members.front(), .nodes = members, .backedges = {}, .irreducible = true};
    std::set<uint32_t> entries;
    for (const uint32_t node : members)
      for (const uint32_t from : predecessors[node])
        if (components.of[from] != components.of[node]) entries.insert(node);
    if (entries.empty()) entries.insert(members.front());
    loop.entry = *entries.begin();
    for (const uint32_t node : members)
      for (const uint32_t to : rest[node])
        if (entries.contains(to) && components.of[to] == components.of[node])
          loop.backedges.emplace_back(node, to);
    loops.push_back(std::move(loop));
  }
}

}  // namespace

bool Loop::contains(uint32_t node) const {
  return std::binary_search(nodes.begin(), nodes.end(), node);
}

// Cooper, Harvey and Kennedy 2001.
std::vector<uint32_t> dominators(const Successors& graph, const std::vector<uint32_t>& entries) {
  const DepthFirst walk(graph, entries);
  const Successors predecessors = reversed(graph);
  // The virtual root is kNone - 1 inside, and its children are their own dominators outside.
  constexpr uint32_t kRoot = kNone - 1;
  std::vector<uint32_t> dominator(graph.size(), kNone);
  const auto meet = [&](uint32_t a, uint32_t b) {
    while (a != b) {
      if (a == kRoot || b == kRoot) return kRoot;
      if (walk.position[a] > walk.position[b])
        a = dominator[a];
      else
        b = dominator[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const uint32_t node : walk.order) {
      uint32_t best = walk.is_root[node] ? kRoot : kNone;
      for (const uint32_t from : predecessors[node]) {
        if (dominator[from] == kNone) continue;
        best = best == kNone ? from : meet(best, from);
      }
      if (best != dominator[node]) {
        dominator[node] = best;
        changed = true;
      }
    }
  }
  for (uint32_t node = 0; node < graph.size(); node++)
    if (dominator[node] == kRoot || dominator[node] == kNone) dominator[node] = node;
  return dominator;
}

std::vector<Loop> natural_loops(const Successors& graph, const std::vector<uint32_t>& entries) {
  const std::vector<uint32_t> dominator = dominators(graph, entries);
  std::map<uint32_t, std::vector<uint32_t>> tails;
  std::set<std::pair<uint32_t, uint32_t>> backedges;
  for (uint32_t from = 0; from < graph.size(); from++)
    for (const uint32_t to : graph[from])
      if (dominates(dominator, to, from) && backedges.emplace(from, to).second) tails[to].push_back(from);
  const Successors predecessors = reversed(graph);
  std::vector<uint32_t> mark(graph.size(), 0);
  std::vector<Loop> loops;
  uint32_t stamp = 0;
  for (const auto& [entry, from] : tails) {
    Loop loop{.entry = entry, .nodes = body_of(predecessors, entry, from, mark, ++stamp), .backedges = {}};
    for (const uint32_t tail : from)
      loop.backedges.emplace_back(tail, entry);
    loops.push_back(std::move(loop));
  }
  add_irreducible(graph, backedges, loops);
  sort_by_nesting(loops);
  return loops;
}

std::optional<std::vector<std::vector<uint32_t>>> circuits(const Successors& graph, size_t limit) {
  std::vector<std::vector<uint32_t>> found;
  std::vector<bool> blocked(graph.size());
  std::vector<std::set<uint32_t>> blocking(graph.size());
  std::vector<uint32_t> path;
  uint32_t start = 0;
  bool too_many = false;
  const std::function<void(uint32_t)> unblock = [&](uint32_t node) {
    std::vector<uint32_t> open{node};
    while (!open.empty()) {
      const uint32_t next = open.back();
      open.pop_back();
      if (!blocked[next]) continue;
      blocked[next] = false;
      open.insert(open.end(), blocking[next].begin(), blocking[next].end());
      blocking[next].clear();
    }
  };
  // Only nodes of the start's component in the graph of those that come after it can close a circuit.
  Components components;
  const auto is_inside = [&](uint32_t node) {
    return node >= start && components.of[node] == components.of[start];
  };
  const std::function<bool(uint32_t)> circuit = [&](uint32_t node) {
    bool closes = false;
    path.push_back(node);
    blocked[node] = true;
    for (const uint32_t to : graph[node]) {
      if (too_many) break;
      if (!is_inside(to)) continue;
      if (to == start) {
        closes = true;
        found.push_back(path);
        too_many = found.size() > limit;
      } else if (!blocked[to]) {
        closes = circuit(to) || closes;
      }
    }
    if (closes) {
      unblock(node);
    } else {
      for (const uint32_t to : graph[node])
        if (is_inside(to)) blocking[to].insert(node);
    }
    path.pop_back();
    return closes;
  };
  for (start = 0; start < graph.size() && !too_many; start++) {
    Successors rest(graph.size());
    for (uint32_t from = start; from < graph.size(); from++)
      for (const uint32_t to : graph[from])
        if (to >= start) rest[from].push_back(to);
    components = strong_components(rest);
    std::fill(blocked.begin(), blocked.end(), false);
    for (std::set<uint32_t>& each : blocking)
      each.clear();
    circuit(start);
  }
  if (too_many) return std::nullopt;
  return found;
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

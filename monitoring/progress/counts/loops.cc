#include "monitoring/progress/counts/loops.h"

#include <algorithm>
#include <map>
#include <set>

#include "monitoring/progress/counts/dominators.h"

namespace kintsugi::progress {
namespace {

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

/// Cycles without an entry that dominates them: once the backedges of the natural loops are gone, whatever is still
/// strongly connected.
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

void sort_by_nesting(std::vector<Loop>& loops) {
  std::sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) {
    return a.nodes.size() != b.nodes.size() ? a.nodes.size() > b.nodes.size() : a.entry < b.entry;
  });
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

}  // namespace kintsugi::progress

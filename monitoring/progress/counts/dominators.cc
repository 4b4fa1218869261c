#include "monitoring/progress/counts/dominators.h"

#include <algorithm>

namespace kintsugi::progress {
namespace {

constexpr uint32_t kNone = ~0u;

}  // namespace

Successors reversed(const Successors& graph) {
  Successors result(graph.size());
  for (uint32_t from = 0; from < graph.size(); from++)
    for (const uint32_t to : graph[from])
      result[to].push_back(from);
  return result;
}

DepthFirst::DepthFirst(const Successors& graph, const std::vector<uint32_t>& entries)
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

bool dominates(const std::vector<uint32_t>& dominator, uint32_t above, uint32_t node) {
  while (node != above) {
    if (dominator[node] == node) return false;
    node = dominator[node];
  }
  return true;
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

}  // namespace kintsugi::progress

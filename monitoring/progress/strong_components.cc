#include "monitoring/progress/strong_components.h"

#include <algorithm>

namespace kintsugi::progress {

std::vector<std::vector<uint32_t>> Components::members() const {
  std::vector<std::vector<uint32_t>> members(count);
  for (uint32_t v = 0; v < of.size(); v++)
    members[of[v]].push_back(v);
  return members;
}

Components strong_components(const Successors& successors) {
  constexpr uint32_t kUnseen = ~0u;
  const auto size = static_cast<uint32_t>(successors.size());
  Components result{.of = std::vector<uint32_t>(size, kUnseen), .count = 0};
  std::vector<uint32_t> order(size, kUnseen), low(size, 0), stack;
  struct Frame {
    uint32_t vertex;
    size_t next;
  };
  std::vector<Frame> calls;
  uint32_t seen = 0;
  const auto enter = [&](uint32_t v) {
    order[v] = low[v] = seen++;
    stack.push_back(v);
    calls.push_back({v, 0});
  };
  for (uint32_t start = 0; start < size; start++) {
    if (order[start] != kUnseen) continue;
    enter(start);
    while (!calls.empty()) {
      const uint32_t v = calls.back().vertex;
      if (calls.back().next < successors[v].size()) {
        const uint32_t to = successors[v][calls.back().next++];
        if (order[to] == kUnseen)
          enter(to);
        else if (result.of[to] == kUnseen)  // still on the stack
          low[v] = std::min(low[v], order[to]);
        continue;
      }
      calls.pop_back();
      if (!calls.empty()) low[calls.back().vertex] = std::min(low[calls.back().vertex], low[v]);
      if (low[v] != order[v]) continue;
      uint32_t member;
      do {
        member = stack.back();
        stack.pop_back();
        result.of[member] = result.count;
      } while (member != v);
      result.count++;
    }
  }
  return result;
}

}  // namespace kintsugi::progress

#include "monitoring/progress/counts/loop_order.h"

#include <algorithm>
#include <map>
#include <set>

namespace kintsugi::progress {

LoopOrder::LoopOrder(const Successors& graph, const std::vector<Loop>& loops, bool text_form)
    : graph_(graph), loops_(loops), text_form_(text_form), loops_of_(graph.size()) {
  for (uint32_t i = 0; i < loops.size(); i++)
    for (const uint32_t node : loops[i].nodes)
      loops_of_[node].push_back(i);
}

std::vector<uint32_t> LoopOrder::common_loops(uint32_t first, uint32_t second) const {
  std::vector<uint32_t> common;
  std::set_intersection(loops_of_[first].begin(), loops_of_[first].end(), loops_of_[second].begin(),
                        loops_of_[second].end(), std::back_inserter(common));
  return common;
}

bool LoopOrder::reaches(const Loop& loop, uint32_t from, uint32_t to) const {
  std::set<uint32_t> seen{from};
  std::vector<uint32_t> open{from};
  while (!open.empty()) {
    const uint32_t node = open.back();
    open.pop_back();
    if (node == to) return true;
    for (const uint32_t next : graph_[node])
      if (next != loop.entry && loop.contains(next) && seen.insert(next).second) open.push_back(next);
  }
  return false;
}

Dependence LoopOrder::same_iteration(uint32_t outermost, uint32_t first, uint32_t second) const {
  if (first == second) return kNoDependence;
  const Loop& loop = loops_[outermost];
  if (!text_form_) {
    const bool forward = reaches(loop, first, second), backward = reaches(loop, second, first);
    if (forward != backward) return forward ? kSecondOnFirst : kFirstOnSecond;
  }
  std::map<uint32_t, uint32_t> hops{{loop.entry, 0}};
  std::vector<uint32_t> queue{loop.entry};
  for (size_t at = 0; at < queue.size(); at++)
    for (const uint32_t next : graph_[queue[at]])
      if (loop.contains(next) && hops.emplace(next, hops[queue[at]] + 1).second) queue.push_back(next);
  const uint32_t first_hops = hops[first], second_hops = hops[second];
  if (first_hops == second_hops) return kNoDependence;
  return first_hops > second_hops ? kFirstOnSecond : kSecondOnFirst;
}

}  // namespace kintsugi::progress

#include "monitoring/progress/texts/without_targets.h"

#include <map>

#include "monitoring/progress/counts/siblings.h"

namespace kintsugi::progress {
DependenceGraph without_targets(const std::vector<Standing>& standing, const GlobalModel& model) {
  const Successors& edges = model.markov.successors();
  const std::vector<Loop> loops = natural_loops(edges, model.entries);
  const auto groups = groups_of(standing, model, &loops, true);
  const LoopOrder order(edges, loops);
  const HittingProbability hitting(model.markov);
  GroupGraph graph(groups, standing.size());
  std::map<uint64_t, std::vector<uint32_t>> by_trace;
  for (uint32_t group = 0; group < groups.size(); group++)
    by_trace[standing[groups[group].front()].trace].push_back(group);
  const auto compare = [&](uint32_t first, uint32_t second) {
    const Standing& one = standing[groups[first].front()];
    const Standing& other = standing[groups[second].front()];
    if (one.waits_for_others != other.waits_for_others)
      return one.waits_for_others ? kFirstOnSecond : kSecondOnFirst;
    if (one.role == other.role) return order_of_siblings(one, other, model.markov, order);
    const uint32_t x = model.markov.find(one.state), y = model.markov.find(other.state);
    if (x == Markov::kNone || y == Markov::kNone) return kNoDependence;
    const Dependence found = dependence(hitting(x, y), hitting(y, x), kEpsilon);
    if (found != kUndefined) return found;
    const auto none = [](uint32_t, uint32_t) { return 0.0; };
    return order.compare(x, none, y, none);
  };
  for (const auto& [trace, members] : by_trace)
    compare_all(members, [&](uint32_t first, uint32_t second) {
      return graph.add(first, second, compare(first, second));
    });
  return graph.take();
}

}  // namespace kintsugi::progress

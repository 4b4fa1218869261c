#include "monitoring/progress/without_targets.h"

#include <map>

namespace kintsugi::progress {
namespace {

/// One odd transition among a thousand does not turn "always" into "sometimes".
constexpr double kEpsilon = 0.001;

/// Tasks of one role by their loops; those whose counts overflowed, by what they have moved.
Order order_of_siblings(const Standing& one, const Standing& other, const Markov& markov,
                        const LoopOrder& order) {
  const uint32_t x = markov.find(one.state), y = markov.find(other.state);
  if (!one.counts.empty() && !other.counts.empty() && x != Markov::kNone && y != Markov::kNone) {
    const Order found = order.compare(x, counter(one, markov), y, counter(other, markov));
    if (found != Order::kNone) return found;
  }
  if (one.progress == other.progress) return Order::kNone;
  return one.progress > other.progress ? Order::kFirstWaits : Order::kSecondWaits;
}

}  // namespace

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
    if (one.role == other.role) return dependence_of(order_of_siblings(one, other, model.markov, order));
    const uint32_t x = model.markov.find(one.state), y = model.markov.find(other.state);
    if (x == Markov::kNone || y == Markov::kNone) return kNoDependence;
    const Dependence found = dependence(hitting(x, y), hitting(y, x), kEpsilon);
    if (found != kUndefined) return found;
    const auto none = [](uint32_t, uint32_t) { return 0.0; };
    return dependence_of(order.compare(x, none, y, none));
  };
  for (const auto& [trace, members] : by_trace)
    graph.compare_all(members, compare);
  return graph.take();
}

std::vector<uint32_t> least_progressed_siblings(const std::vector<Standing>& siblings,
                                                const GlobalModel& model) {
  const Successors& edges = model.markov.successors();
  const std::vector<Loop> loops = natural_loops(edges, model.entries);
  const LoopOrder order(edges, loops);
  std::vector<std::vector<uint32_t>> each;
  for (const uint32_t i : numbers_to(siblings.size()))
    each.push_back({i});
  GroupGraph graph(each, siblings.size());
  graph.compare_all(numbers_to(siblings.size()), [&](uint32_t first, uint32_t second) {
    return dependence_of(order_of_siblings(siblings[first], siblings[second], model.markov, order));
  });
  return least_progressed(graph.take());
}

}  // namespace kintsugi::progress

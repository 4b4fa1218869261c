#include "monitoring/progress/texts/prodometer.h"

#include <map>

#include "monitoring/progress/counts/siblings.h"

namespace kintsugi::progress {
DependenceGraph prodometer(const std::vector<Standing>& standing, const GlobalModel& model) {
  const Successors& edges = model.markov.successors();
  // As the released code does by default. Circuits that are merged by their entries, as the text has it, are not closed
  // under nesting: a loop inside of another one is then no part of it, and hops decide nothing.
  const std::vector<Loop> loops = natural_loops(edges, model.entries);
  const auto groups = groups_of(standing, model, &loops, false);
  const LoopOrder order(edges, loops, true);
  GroupGraph graph(groups, standing.size());
  std::map<std::pair<uint32_t, uint32_t>, double> known;
  const auto probability = [&](uint32_t from, uint32_t to) {
    const auto [at, is_new] = known.emplace(std::pair(from, to), 0);
    if (is_new) at->second = simple_path_probability(model.markov, from, to);
    return at->second;
  };
  const auto compare = [&](uint32_t first, uint32_t second) {
    const Standing& one = standing[groups[first].front()];
    const Standing& other = standing[groups[second].front()];
    const uint32_t x = model.markov.find(one.state), y = model.markov.find(other.state);
    if (x == Markov::kNone || y == Markov::kNone) return kNoDependence;
    if (order.common_loops(x, y).empty()) return higher_decides(probability(x, y), probability(y, x));
    return order.compare(x, counter(one, model.markov), y, counter(other, model.markov));
  };
  compare_all(numbers_to(groups.size()), [&](uint32_t first, uint32_t second) {
    return graph.add(first, second, compare(first, second));
  });
  return graph.take();
}

}  // namespace kintsugi::progress

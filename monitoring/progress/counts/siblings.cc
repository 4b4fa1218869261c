#include "monitoring/progress/counts/siblings.h"

#include "monitoring/progress/counts/dependence.h"

namespace kintsugi::progress {

Dependence order_of_siblings(const Standing& one, const Standing& other, const Markov& markov,
                             const LoopOrder& order) {
  const uint32_t x = markov.find(one.state), y = markov.find(other.state);
  if (!one.counts.empty() && !other.counts.empty() && x != Markov::kNone && y != Markov::kNone) {
    const Dependence found = order.compare(x, counter(one, markov), y, counter(other, markov));
    if (found != kNoDependence) return found;
  }
  if (one.progress == other.progress) return kNoDependence;
  return one.progress > other.progress ? kFirstOnSecond : kSecondOnFirst;
}

std::vector<uint32_t> least_progressed_siblings(const std::vector<Standing>& siblings,
                                                const GlobalModel& model) {
  const Successors& edges = model.markov.successors();
  const std::vector<Loop> loops = natural_loops(edges, model.entries);
  const LoopOrder order(edges, loops);
  std::vector<bool> is_ahead(siblings.size(), false);
  compare_all(numbers_to(siblings.size()), [&](uint32_t first, uint32_t second) {
    const Dependence found = order_of_siblings(siblings[first], siblings[second], model.markov, order);
    if (found == kFirstOnSecond) is_ahead[first] = true;
    if (found == kSecondOnFirst) is_ahead[second] = true;
    return found;
  });
  std::vector<uint32_t> least;
  for (uint32_t i = 0; i < siblings.size(); i++)
    if (!is_ahead[i]) least.push_back(i);
  return least;
}

}  // namespace kintsugi::progress

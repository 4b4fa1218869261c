#include "monitoring/progress/texts/automaded.h"

namespace kintsugi::progress {
namespace {

Markov own_model(const Standing& task) {
  Markov markov;
  markov.add_state(task.state);
  for (const Standing::Count& count : task.counts)
    if (count.from != 0 && count.to != 0) markov.add(count.from, count.to, count.times);
  return markov;
}

}  // namespace

DependenceGraph automaded(const std::vector<Standing>& standing, const GlobalModel& model, bool own_models,
                          bool hitting) {
  const auto groups = groups_of(standing, model, nullptr, false);
  GroupGraph graph(groups, standing.size());
  std::vector<std::vector<uint8_t>> united(groups.size(), std::vector<uint8_t>(groups.size(), kNoDependence));
  const auto view = [&](const Markov& markov, uint32_t first, uint32_t second) {
    const uint32_t x = markov.find(standing[groups[first].front()].state);
    const uint32_t y = markov.find(standing[groups[second].front()].state);
    if (x == Markov::kNone || y == Markov::kNone) return;
    const auto p = [&](uint32_t from, uint32_t to) {
      return hitting ? HittingProbability(markov)(from, to) : simple_path_probability(markov, from, to);
    };
    united[first][second] |= dependence(p(x, y), p(y, x), kEpsilon);
  };
  if (own_models) {
    for (uint32_t group = 0; group < groups.size(); group++)
      for (const uint32_t member : groups[group]) {
        const Markov own = own_model(standing[member]);
        for (uint32_t other = 0; other < groups.size(); other++) {
          if (other < group) view(own, other, group);
          if (other > group) view(own, group, other);
        }
      }
  } else {
    for (uint32_t first = 0; first < groups.size(); first++)
      for (uint32_t second = first + 1; second < groups.size(); second++)
        view(model.markov, first, second);
  }
  for (uint32_t first = 0; first < groups.size(); first++)
    for (uint32_t second = first + 1; second < groups.size(); second++)
      graph.add(first, second, static_cast<Dependence>(united[first][second]));
  return graph.take();
}

}  // namespace kintsugi::progress

#include "monitoring/progress/texts/group_graph.h"

#include <map>
#include <tuple>

namespace kintsugi::progress {

std::vector<uint32_t> least_progressed(const DependenceGraph& graph) {
  std::vector<uint32_t> least;
  for (uint32_t i = 0; i < graph.size(); i++)
    if (graph[i].empty()) least.push_back(i);
  return least;
}

std::vector<std::vector<uint32_t>> groups_of(const std::vector<Standing>& standing, const GlobalModel& model,
                                             const std::vector<Loop>* loops, bool by_trace) {
  std::vector<std::vector<uint32_t>> loops_of(model.markov.size());
  if (loops != nullptr)
    for (uint32_t i = 0; i < loops->size(); i++)
      for (const uint32_t node : (*loops)[i].nodes)
        loops_of[node].push_back(i);
  std::map<std::tuple<uint64_t, uint64_t, std::vector<double>>, std::vector<uint32_t>> groups;
  for (uint32_t i = 0; i < standing.size(); i++) {
    const uint32_t state = model.markov.find(standing[i].state);
    std::vector<double> iterations;
    if (loops != nullptr && state != Markov::kNone)
      for (const uint32_t loop : loops_of[state]) {
        double count = 0;
        for (const auto& [from, to] : (*loops)[loop].backedges)
          count += standing[i].count(model.markov.key(from), model.markov.key(to));
        iterations.push_back(count);
      }
    groups[{by_trace ? standing[i].trace : 0, standing[i].state, std::move(iterations)}].push_back(i);
  }
  std::vector<std::vector<uint32_t>> result;
  for (auto& [key, members] : groups)
    result.push_back(std::move(members));
  return result;
}

}  // namespace kintsugi::progress

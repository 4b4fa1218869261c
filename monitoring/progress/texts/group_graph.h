/// Progress dependence graphs of tasks (Laguna 2015, Mitra 2016), made by comparing groups of equal ones.
#pragma once

#include <vector>

#include "monitoring/progress/counts/standing.h"
#include "monitoring/progress/texts/path_probability.h"
#include "monitoring/progress/texts/task_model.h"

namespace kintsugi::progress {

/// A progress dependence graph: for each element, those that it depends on.
using DependenceGraph = Successors;

/// Elements without dependences: the least progressed.
std::vector<uint32_t> least_progressed(const DependenceGraph& graph);

/// Tasks that nothing tells apart: the same state and the same counts of the loops around it. Null: loops are not
/// looked at. `by_trace`: only of one operation.
std::vector<std::vector<uint32_t>> groups_of(const std::vector<Standing>& standing, const GlobalModel& model,
                                             const std::vector<Loop>* loops, bool by_trace);

/// Dependences of groups, in the end of all their members.
class GroupGraph {
 public:
  GroupGraph(const std::vector<std::vector<uint32_t>>& groups, size_t size)
      : groups_(groups), depends_(groups.size()), size_(size) {}

  Dependence add(uint32_t first, uint32_t second, Dependence found) {
    if (found == kFirstOnSecond) depends_[first].push_back(second);
    if (found == kSecondOnFirst) depends_[second].push_back(first);
    return found;
  }
  DependenceGraph take() const {
    DependenceGraph graph(size_);
    for (size_t group = 0; group < groups_.size(); group++)
      for (const uint32_t member : groups_[group])
        for (const uint32_t other : depends_[group])
          graph[member].push_back(groups_[other].front());
    return graph;
  }

 private:
  const std::vector<std::vector<uint32_t>>& groups_;
  std::vector<std::vector<uint32_t>> depends_;
  size_t size_;
};

}  // namespace kintsugi::progress

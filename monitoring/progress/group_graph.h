/// Progress dependence graphs of tasks, made by comparing groups of equal ones.
#pragma once

#include <vector>

#include "monitoring/progress/global_model.h"
#include "monitoring/progress/loop_order.h"
#include "monitoring/progress/path_probability.h"
#include "monitoring/progress/standing.h"

namespace kintsugi::progress {

/// A progress dependence graph: for each element, those that it depends on.
using DependenceGraph = Successors;

/// Elements without dependences: the least progressed.
std::vector<uint32_t> least_progressed(const DependenceGraph& graph);

/// The numbers 0 to count - 1.
std::vector<uint32_t> numbers_to(size_t count);

/// Tasks that nothing tells apart: the same state and the same counts of the loops around it. Null: loops are not looked at.
/// `by_trace`: only of one operation.
std::vector<std::vector<uint32_t>> groups_of(const std::vector<Standing>& standing, const GlobalModel& model,
                                             const std::vector<Loop>* loops, bool by_trace);

Dependence dependence_of(Order order);

/// How often the task has taken a transition between two states of the model.
inline auto counter(const Standing& task, const Markov& markov) {
  return
      [&task, &markov](uint32_t from, uint32_t to) { return task.count(markov.key(from), markov.key(to)); };
}

/// Dependences of groups, in the end of all their members.
class GroupGraph {
 public:
  GroupGraph(const std::vector<std::vector<uint32_t>>& groups, size_t size)
      : groups_(groups), depends_(groups.size()), size_(size) {}

  void add(uint32_t first, uint32_t second, Dependence found) {
    if (found == kFirstOnSecond) depends_[first].push_back(second);
    if (found == kSecondOnFirst) depends_[second].push_back(first);
  }
  /// Compares all pairs. Of very many groups, each only with those that nothing before it is behind of: progress is transitive but for odd
  /// cases, and the least progressed are what is looked for.
  template <class Compare>
  void compare_all(const std::vector<uint32_t>& groups, const Compare& compare) {
    constexpr size_t kMost = 1'024;
    const bool all = groups.size() <= kMost;
    std::vector<uint32_t> least;
    for (const uint32_t group : groups) {
      bool is_least = true;
      std::erase_if(least, [&](uint32_t other) {
        const Dependence found = compare(other, group);
        add(other, group, found);
        if (found == kSecondOnFirst) is_least = false;
        return !all && found == kFirstOnSecond;
      });
      if (is_least || all) least.push_back(group);
    }
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

/// The culprits: the vertices of the wait graph that wait for nobody, with all tasks that wait for them.
#pragma once

#include <cstdint>
#include <vector>

#include "monitoring/progress/waits/wait_graph.h"

namespace kintsugi::progress {

struct Culprit {
  std::vector<uint32_t> members;  ///< one vertex, or the vertices of a knot (a cycle of waits)
  uint32_t blamed = 0;            ///< the task without progress, or the vertex itself when no task is known
  std::vector<uint32_t> waiters;  ///< tasks and ended waits that wait for it, directly or not
  /// The path to it from the root of an operation: the longest of the shortest paths. It ends with `blamed`.
  std::vector<uint32_t> chain;
  bool masked = false;  ///< all operations continued without it
  bool weak = false;    ///< no task is known for certain to wait for it
  bool knot = false;
  double surprise = 0;
};

/// All of them, unordered. Those that reports do not show well enough yet are left out.
std::vector<Culprit> find_culprits(const OpenTasks& tasks, const WaitGraph& graph, const Sojourns& sojourns);

}  // namespace kintsugi::progress

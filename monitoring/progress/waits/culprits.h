/// Who holds everybody up: the vertices of the wait graph that wait for nobody, with all who wait for them.
#pragma once

#include <cstdint>
#include <vector>

#include "monitoring/progress/waits/wait_graph.h"

namespace kintsugi::progress {

struct Culprit {
  std::vector<uint32_t> members;  ///< one vertex, or those of a knot: a circle of waits
  uint32_t blamed = 0;  ///< the task where it stands still, or the vertex itself when no task is known
  std::vector<uint32_t> waiters;  ///< vertices, tasks and ended waits, that wait for it, in the end
  std::vector<uint32_t>
      chain;            ///< the longest shortest path to it, from an operation's root on; ends with `blamed`
  bool masked = false;  ///< all operations went on without it
  bool weak = false;    ///< nobody is known for certain to wait for it
  bool knot = false;
  double surprise = 0;
};

/// All of them, unordered. Those that reports do not show well enough yet are left out.
std::vector<Culprit> find_culprits(const OpenTasks& tasks, const WaitGraph& graph, const Sojourns& sojourns);

}  // namespace kintsugi::progress

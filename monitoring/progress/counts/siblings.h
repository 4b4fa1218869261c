/// Which task is behind among tasks of one role that work for the same parent, by the counts of their loops.
#pragma once

#include <cstdint>
#include <vector>

#include "monitoring/progress/counts/global_model.h"
#include "monitoring/progress/counts/loop_order.h"
#include "monitoring/progress/counts/standing.h"

namespace kintsugi::progress {

/// How often the task has taken a transition between two states of the model.
inline auto counter(const Standing& task, const Markov& markov) {
  return
      [&task, &markov](uint32_t from, uint32_t to) { return task.count(markov.key(from), markov.key(to)); };
}

/// Which of two siblings is ahead: by the loops around both, or, when counts overflowed, by what they have moved.
Dependence order_of_siblings(const Standing& one, const Standing& other, const Markov& markov,
                             const LoopOrder& order);

/// The tasks that are not ahead of another, in ascending order.
std::vector<uint32_t> least_progressed_siblings(const std::vector<Standing>& siblings,
                                                const GlobalModel& model);

}  // namespace kintsugi::progress

/// The control flow of all processes together, as a Markov chain of the states of their tasks.
#pragma once

#include <vector>

#include "monitoring/progress/markov.h"
#include "monitoring/progress/standing.h"

namespace kintsugi::progress {

/// The control flow of all processes together. `entries`: states that tasks begin with.
struct GlobalModel {
  Markov markov;
  std::vector<uint32_t> entries;
};
/// `join_calls`: the callee runs between what its caller did before the call and the caller's wait for the answer, by the calling contexts
/// of the dictionaries: so states of different roles can be compared.
GlobalModel global_model(const OpenTasks& tasks, const std::vector<Standing>& standing, bool join_calls);
/// Of the tasks' own transitions alone.
GlobalModel global_model(const std::vector<Standing>& standing);

}  // namespace kintsugi::progress

/// The control flow of all processes and of the tasks in them that make no progress.
#pragma once

#include <vector>

#include "monitoring/progress/counts/global_model.h"
#include "monitoring/progress/counts/standing.h"

namespace kintsugi::progress {

/// `join_calls`: the callee runs between what its caller did before the call and the caller's wait for the answer, by
/// the calling contexts of the dictionaries: so states of different roles can be compared.
GlobalModel global_model(const OpenTasks& tasks, const std::vector<Standing>& standing, bool join_calls);
/// A model of the tasks' own transitions alone.
GlobalModel global_model(const std::vector<Standing>& standing);

}  // namespace kintsugi::progress

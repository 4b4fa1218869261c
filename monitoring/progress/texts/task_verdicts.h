/// Verdicts from tasks that are the least progressed.
#pragma once

#include <vector>

#include "monitoring/progress/counts/standing.h"

namespace kintsugi::progress {

/// The least progressed, put together by process and region; how many operations each holds up orders them.
std::vector<proto::Verdict> verdicts_of(const OpenTasks& tasks, const std::vector<Standing>& standing,
                                        const std::vector<uint32_t>& least);

/// Names, region and line of a task.
proto::Verdict verdict_of_task(const OpenTasks& tasks, uint32_t task);

}  // namespace kintsugi::progress

/// Verdicts of the other methods: what the campaign compares ours with, on the same snapshots.
#pragma once

#include <vector>

#include "monitoring/progress/open_tasks.h"

namespace kintsugi::progress {

/// REQUIRES: settings.method is none of those from waits.
std::vector<proto::Verdict> baseline_verdicts(const OpenTasks& tasks, const Settings& settings);

/// Processes whose loop is held or that nobody hears, which no method needs waits for.
std::vector<proto::Verdict> process_verdicts(const OpenTasks& tasks, bool loops);

/// Names, region and line of a task.
proto::Verdict verdict_of_task(const OpenTasks& tasks, uint32_t task);

}  // namespace kintsugi::progress

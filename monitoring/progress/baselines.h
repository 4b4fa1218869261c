/// Verdicts of the other methods: what the campaign compares ours with, on the same snapshots.
#pragma once

#include <vector>

#include "monitoring/progress/open_tasks.h"
#include "monitoring/progress/standing.h"

namespace kintsugi::progress {

/// REQUIRES: settings.method is none of ours.
std::vector<proto::Verdict> baseline_verdicts(const OpenTasks& tasks, const Settings& settings);

/// Processes whose loop is held or that nobody hears, which no method needs waits for.
std::vector<proto::Verdict> process_verdicts(const OpenTasks& tasks, bool loops);

/// The least progressed, put together by process and region; how many operations each holds up orders them.
std::vector<proto::Verdict> verdicts_of(const OpenTasks& tasks, const std::vector<Standing>& standing,
                                        const std::vector<uint32_t>& least, const Settings& settings);

/// Names, region and line of a task.
proto::Verdict verdict_of_task(const OpenTasks& tasks, uint32_t task);
/// The names of a process, by its index in the snapshot.
proto::Verdict verdict_of_process(const OpenTasks& tasks, size_t index, proto::Verdict::Kind kind);

}  // namespace kintsugi::progress

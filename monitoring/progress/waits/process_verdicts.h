/// Verdicts of whole processes, which need no waits.
#pragma once

#include <vector>

#include "monitoring/progress/evidence/open_tasks.h"

namespace kintsugi::progress {

/// Processes whose loop is held, or that nobody hears.
std::vector<proto::Verdict> process_verdicts(const OpenTasks& tasks);

/// The names of a process, by its index in the snapshot.
proto::Verdict verdict_of_process(const OpenTasks& tasks, size_t index, proto::Verdict::Kind kind);

}  // namespace kintsugi::progress

/// Our form for when no wait says what it waits for: an ablation that the campaign reports.
#pragma once

#include <vector>

#include "monitoring/progress/evidence/movement.h"
#include "monitoring/progress/evidence/open_tasks.h"

namespace kintsugi::progress {

/// The least progressed of each operation, as far as they wait for nobody by the kinds of their waits. Where no
/// operation shows such a task the culprit is not among those that are seen: then servers that do not report, or the
/// one that serves nobody while most of its kind do. `movement` has seen the snapshot.
std::vector<proto::Verdict> verdicts_without_targets(const OpenTasks& tasks, const Movement& movement);

}  // namespace kintsugi::progress

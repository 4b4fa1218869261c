/// Progress when nobody says what is waited for: our form of the analysis.
#pragma once

#include <vector>

#include "monitoring/progress/group_graph.h"

namespace kintsugi::progress {

/// Our form: natural loops and hitting probabilities, tasks of one operation only; who waits for others by the kind of its wait never comes
/// before one that waits for nobody.
DependenceGraph without_targets(const std::vector<Standing>& standing, const GlobalModel& model);

/// Of siblings, tasks of one role, only those that are not ahead of another by their counts.
std::vector<uint32_t> least_progressed_siblings(const std::vector<Standing>& siblings,
                                                const GlobalModel& model);

}  // namespace kintsugi::progress

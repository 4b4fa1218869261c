/// Progress when nobody says what is waited for: our form of the analysis.
#pragma once

#include <vector>

#include "monitoring/progress/texts/group_graph.h"

namespace kintsugi::progress {

/// Our form: natural loops and hitting probabilities, tasks of one operation only; who waits for others by the kind of
/// its wait never comes before one that waits for nobody.
DependenceGraph without_targets(const std::vector<Standing>& standing, const GlobalModel& model);

}  // namespace kintsugi::progress

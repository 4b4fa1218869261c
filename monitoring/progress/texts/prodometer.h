/// Prodometer (Mitra 2016, algorithms 1 and 2): tasks are ordered by the loops in which they are. A baseline that the
/// campaign holds beside our verdicts, on the same snapshots.
#pragma once

#include "monitoring/progress/texts/group_graph.h"

namespace kintsugi::progress {

/// Prodometer in the text's form, with its misprints mended.
DependenceGraph prodometer(const std::vector<Standing>& standing, const GlobalModel& model);

}  // namespace kintsugi::progress

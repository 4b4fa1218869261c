/// AutomaDeD's progress analysis (Laguna et al. 2015): tasks are ordered by the probabilities of paths between their
/// states. A baseline that the campaign holds beside our verdicts, on the same snapshots.
#pragma once

#include "monitoring/progress/texts/group_graph.h"

namespace kintsugi::progress {

/// AutomaDeD: the table of path probabilities, which are sums over simple paths, or `hitting` probabilities.
/// `own_models`: DIST, each task from its own transitions, united by OR; else SEMI-DIST, from the global model.
/// Elements are `standing`.
DependenceGraph automaded(const std::vector<Standing>& standing, const GlobalModel& model, bool own_models,
                          bool hitting = false);

}  // namespace kintsugi::progress

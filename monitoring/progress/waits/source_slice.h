/// Where to look in the source (Laguna et al. 2015, section 4.4, without a slicer in production): the open regions of
/// the culprit from the innermost out, the places of the call that brought the work there, and the same of each task
/// that depends on it, outwards.
#pragma once

#include <vector>

#include "monitoring/progress/waits/culprits.h"

namespace kintsugi::progress {

/// Process, region, file, line and function of at most 48 places, the likeliest first; none twice.
std::vector<proto::ChainLink> source_slice(const OpenTasks& tasks, const WaitGraph& graph,
                                           const Culprit& culprit);

}  // namespace kintsugi::progress

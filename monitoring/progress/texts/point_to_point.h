/// The last step of both texts: of several least progressed tasks those are dropped that wait for another one by name
/// (Laguna 2015, section 4.3; Mitra 2016, algorithm 1: a message from one to the other, and none back).
#pragma once

#include <cstdint>
#include <vector>

#include "monitoring/progress/counts/standing.h"

namespace kintsugi::progress {

/// `waits_for`: by element, those that it waits for by name. A single element stays, and so do all when each waits for
/// another one.
std::vector<uint32_t> without_point_to_point(const std::vector<uint32_t>& least,
                                             const std::vector<std::vector<uint32_t>>& waits_for);

/// For each element of `standing` those whose answer, frame or room in a stream it waits for.
std::vector<std::vector<uint32_t>> named_waits(const OpenTasks& tasks, const std::vector<Standing>& standing);

}  // namespace kintsugi::progress

/// BlackSheep in the form of the text (Tan 2008, section 6.1): what ours is compared with. Pure.
#pragma once

#include <span>
#include <vector>

#include "monitoring/metrics/blacksheep/corroboration.h"

namespace kintsugi::blacksheep {

/// Algorithm 1 as it is printed (Tan 2008, section 6.1.2), with the absolute difference of the means. It reports a rise
/// several times, nothing smaller than the largest jump so far, and with a threshold of 1 or more no fall.
/// REQUIRES: window > 0.
std::vector<size_t> change_points_as_printed(std::span<const double> values, size_t window, double threshold);

/// Changes agree when they are at the same instant (algorithms 2 and 3). REQUIRES: both ascend.
Corroboration corroborate_exactly(std::span<const size_t> metric, std::span<const size_t> state,
                                  size_t instants);

}  // namespace kintsugi::blacksheep

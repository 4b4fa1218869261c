/// Leaves stripes out of a state, each of which another one stands for.
#pragma once

#include <span>

#include "repair_manager/what_if/fluid_cluster.h"

namespace kintsugi::what_if {

/// Keeps one of every so many stripes that lack the same number of chunks and follow one another in the queue of
/// repairs; its repair then stands for theirs. `repairs`: how many, by phase; phases have equal parts of the queue. A
/// state that stays as it is stays so in every byte. REQUIRES: every stripe lacks a chunk.
FluidState bundled(FluidState state, std::span<const uint32_t> repairs);

}  // namespace kintsugi::what_if

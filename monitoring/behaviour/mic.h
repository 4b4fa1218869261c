/// The maximal information coefficient (Reshef et al. 2011): how much of one number another one determines, whatever
/// the shape of the relation. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace kintsugi::behaviour {

/// Mutual information of the points of a grid in bits, over log2 of the smaller side: in [0, 1]. `counts` by column,
/// then by row.
/// REQUIRES: at least two columns and two rows, columns of equal length.
double grid_score(const std::vector<std::vector<uint32_t>>& counts);

/// The largest grid_score over grids of at most n^0.6 cells, searched as ApproxMaxMI does: equal shares of the points
/// on one axis, dynamic programming over at most 15 clumps a column on the other, in both orientations. In [0, 1]; 0
/// for fewer than 4 points or a constant. Takes about 5 ms for 512 points. REQUIRES: x and y of one length, no NaN.
double mic(std::span<const double> x, std::span<const double> y);

/// What mic() of independent numbers stays below in 99 of 100 cases, for `points` points; at least 0.2.
double mic_noise_threshold(size_t points);

/// The same, computed: the 99th percentile under `permutations` random permutations. The table behind
/// mic_noise_threshold() was made with it.
double measure_mic_noise(size_t points, size_t permutations, uint64_t seed);

}  // namespace kintsugi::behaviour

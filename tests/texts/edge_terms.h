/// What each edge adds to the difference of two models in our form, for all edges at once, as wide as the processor computes.
#pragma once

#include <cstddef>

namespace kintsugi::similarity {

/// One model as columns over the edges of its population.
struct EdgeColumns {
  const float *mean, *deviation;  ///< of log2 times; the deviation is above 0 also where there are no times
  const float* share;             ///< of all transitions of the model; 0: the edge was never made
  const float* state_share;       ///< of all transitions, those that leave the edge's first state
  float count;                    ///< of all transitions
};

/// Writes to `terms`, for each of `width` edges, what time_difference() makes of its times, and its part of exit_difference(), both with their weights. An edge that
/// only one of both made adds nothing for its time. True when there is such an edge. `busiest`: the largest sum of both shares, above 0. Every
/// processor computes the same bits.
bool edge_terms(const EdgeColumns& a, const EdgeColumns& b, float busiest, size_t width, float* terms);

}  // namespace kintsugi::similarity

/// Differences in proportion to what they are between workers that are well (Laguna 2012, equation 3.4). Pure.
#pragma once

#include <map>
#include <vector>

#include "monitoring/similarity/difference.h"

namespace kintsugi::similarity {

/// How much each transition differs between workers that are well (ν of equation 3.4). One that is missing counts as 1.
using NoiseWeights = std::map<Transition, double>;

/// ν over all pairs of models that have the transition. None is below a tenth of their median.
NoiseWeights noise_weights(const std::vector<Model>& models, Form form);

/// difference() with every time of a transition divided by its weight.
double difference(const Model& a, const Model& b, Form form, const NoiseWeights& noise);

}  // namespace kintsugi::similarity

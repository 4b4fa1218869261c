/// The exact distribution of Durbin and Watson's statistic: what our normal approximation is compared with. Pure.
#pragma once

#include <optional>

#include "monitoring/metrics/rams/regression.h"

namespace kintsugi::rams {

/// The exact one-sided p of the statistic (Imhof 1961). None above this number of samples.
inline constexpr Eigen::Index kMostExact = 300;
std::optional<double> durbin_watson_exact_p(const Fit& fit, double d);

}  // namespace kintsugi::rams

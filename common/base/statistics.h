/// Means, quantiles and robust spreads of a few numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

namespace kintsugi {

/// 0 of none.
inline double mean_of(std::span<const double> values) {
  double sum = 0;
  for (double value : values)
    sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

/// The standard deviation of a population: divided by n. 0 if there are no values.
inline double deviation_of(std::span<const double> values) {
  const double mean = mean_of(values);
  double sum = 0;
  for (double value : values)
    sum += (value - mean) * (value - mean);
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

/// Linear between the order statistics. REQUIRES: `sorted` ascends and is not empty, share in [0, 1].
inline double quantile_of_sorted(std::span<const double> sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

/// 0 of none.
inline double quantile_of(std::span<const double> values, double share) {
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return quantile_of_sorted(sorted, share);
}

inline double median_of(std::span<const double> values) {
  return quantile_of(values, 0.5);
}

/// The upper one of an even number, and so one of the values; 0 of none.
inline double upper_median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The median distance to the median, scaled so that it is the standard deviation of normal values.
inline double robust_deviation_of(std::span<const double> values) {
  const double median = median_of(values);
  std::vector<double> distances;
  distances.reserve(values.size());
  for (double value : values)
    distances.push_back(std::abs(value - median));
  return 1.4826 * median_of(distances);
}

}  // namespace kintsugi

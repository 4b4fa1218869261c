/// How rare a deviation is, when few values say what is usual, and how many values those really are. Pure.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/statistics.h"

namespace kintsugi::orion {

/// A finding above this share of what healthy traces of equal length show at most is reported.
inline constexpr double kReportedShare = 0.99;

/// The deviation of a normal variable that is as rare as `t` of Student's distribution (Wallace 1959).
inline double as_normal(double t, double degrees) {
  return std::copysign(
      (8 * degrees + 1) / (8 * degrees + 3) * std::sqrt(degrees * std::log1p(t * t / degrees)), t);
}

/// What the largest of so many normal values stays below in kReportedShare of all cases, by Gumbel's law. Values of windows
/// that overlap count in full, which is careful.
inline double most_of_normal(size_t values) {
  const double n = std::max<double>(static_cast<double>(values), 2);
  const double root = std::sqrt(2 * std::log(n));
  const double location = root - (std::log(std::log(n)) + std::log(4 * M_PI)) / (2 * root);
  return location - std::log(-std::log(kReportedShare)) / root;
}

/// The correlation of values of windows with those two further on: each shares half of its rows with the next one.
inline double resemblance_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  double both = 0, squares = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    squares += (values[i] - mean) * (values[i] - mean);
    if (i >= 2) both += (values[i] - mean) * (values[i - 2] - mean);
  }
  return squares > 0 ? std::clamp(both / squares, 0.0, 0.99) : 0;
}

/// How many independent values say as much as so many with this resemblance.
inline double independent_of(size_t values, double resemblance) {
  return std::max(static_cast<double>(values) / 2 * (1 - resemblance) / (1 + resemblance), 2.0);
}

}  // namespace kintsugi::orion

#include "monitoring/similarity/normal_distance.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace kintsugi::similarity {
namespace {

/// The integral of the squared density of a normal distribution.
double own_square(double deviation) {
  return 1 / (2 * std::sqrt(std::numbers::pi) * deviation);
}

/// The integral of the product of both densities.
double product(const Normal& a, const Normal& b) {
  const double variance = a.deviation * a.deviation + b.deviation * b.deviation, apart = a.mean - b.mean;
  return std::exp(-apart * apart / (2 * variance)) / std::sqrt(2 * std::numbers::pi * variance);
}

}  // namespace

double squared_l2(const Normal& a, const Normal& b) {
  return std::max(0.0, own_square(a.deviation) + own_square(b.deviation) - 2 * product(a, b));
}

double normalised_l2(const Normal& a, const Normal& b) {
  return std::max(0.0, 1 - 2 * product(a, b) / (own_square(a.deviation) + own_square(b.deviation)));
}

L2Table::L2Table(size_t points) : points_(points), values_(points * points) {
  for (size_t r = 0; r < points; ++r)
    for (size_t d = 0; d < points; ++d) {
      const double ratio =
          std::exp(std::log(kLargestRatio) * static_cast<double>(r) / static_cast<double>(points - 1));
      const double distance = kLargestDistance * static_cast<double>(d) / static_cast<double>(points - 1);
      values_[r * points + d] = static_cast<float>(normalised_l2({0, 1}, {distance, ratio}));
    }
}

double L2Table::operator()(const Normal& a, const Normal& b) const {
  const double small = std::min(a.deviation, b.deviation), large = std::max(a.deviation, b.deviation);
  const double ratio = large / small, distance = std::abs(a.mean - b.mean) / small;
  if (ratio >= kLargestRatio || distance >= kLargestDistance) return normalised_l2(a, b);
  const double last = static_cast<double>(points_ - 1);
  const double r = std::log(ratio) / std::log(kLargestRatio) * last, d = distance / kLargestDistance * last;
  const auto row = static_cast<size_t>(r), column = static_cast<size_t>(d);
  const double up = r - static_cast<double>(row), right = d - static_cast<double>(column);
  const float* here = &values_[row * points_ + column];
  return (1 - up) * ((1 - right) * here[0] + right * here[1]) +
         up * ((1 - right) * here[points_] + right * here[points_ + 1]);
}

}  // namespace kintsugi::similarity

/// Curves of error by distance that were fitted to pairs of both. Pure.
#pragma once

#include <array>
#include <utility>
#include <vector>

namespace kintsugi::behaviour {

/// How large the error of a prediction is on average, by the distance from what was learnt.
class ErrorByDistance {
 public:
  enum class Shape {
    /// As in the thesis: a parabola fitted by least squares, which may fall again far away.
    kQuadratic,
    /// Isotonic regression, which never falls. Beyond the last point it continues with the slope of its far half.
    kRising,
  };
  ErrorByDistance() = default;
  /// `pairs` of (distance, error's size), in any order. Without any the error is 0 everywhere. The rising curve
  /// follows the medians of groups of pairs, times `mean_to_median`: a single execution of a heavy tail would lift the
  /// mean of its group, and with it everything beyond.
  ErrorByDistance(std::vector<std::pair<double, double>> pairs, Shape shape, double mean_to_median = 1);

  /// Not below 0.
  double at(double distance) const;
  bool empty() const { return empty_; }

 private:
  Shape shape_ = Shape::kRising;
  bool empty_ = true;
  std::array<double, 3> parabola_{};  ///< coefficients by power
  /// Points of the rising curve, which is linear between them.
  std::vector<std::pair<double, double>> points_;
  double slope_ = 0;  ///< slope beyond the last point
};

/// The non-decreasing sequence nearest to `values` in squares (pool adjacent violators). `weights` are above 0.
std::vector<double> isotonic(const std::vector<double>& values, const std::vector<double>& weights);

}  // namespace kintsugi::behaviour

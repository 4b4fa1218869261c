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
    kQuadratic,  ///< the text's: a parabola by least squares, which may fall again far away
    kRising,  ///< isotonic regression, never falling; beyond the last point it goes on as steeply as it rose over the far half
  };
  ErrorByDistance() = default;
  /// `pairs` of (distance, error's size), in any order. Without any the error is 0 everywhere. The rising curve follows the medians of groups of pairs, times
  /// `mean_to_median`: a single execution of a heavy tail would lift the mean of its group, and with it everything beyond.
  ErrorByDistance(std::vector<std::pair<double, double>> pairs, Shape shape, double mean_to_median = 1);

  /// Not below 0.
  double at(double distance) const;
  bool empty() const { return empty_; }

 private:
  Shape shape_ = Shape::kRising;
  bool empty_ = true;
  std::array<double, 3> parabola_{};               ///< by power
  std::vector<std::pair<double, double>> points_;  ///< of the rising curve; linear between them
  double slope_ = 0;                               ///< beyond the last of them
};

/// The non-decreasing sequence nearest to `values` in squares (pool adjacent violators). `weights` are above 0.
std::vector<double> isotonic(const std::vector<double>& values, const std::vector<double>& weights);

}  // namespace kintsugi::behaviour

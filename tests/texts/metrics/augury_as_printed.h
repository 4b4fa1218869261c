/// AUGURY in the form of the text (Laguna 2012, 7.4), and the two simple predictors it is compared with. Pure.
#pragma once

#include <optional>
#include <vector>

#include "common/base/status.h"
#include "monitoring/metrics/augury/model_set.h"
#include "monitoring/metrics/trace/windows.h"

namespace kintsugi::augury {

/// The text's hyper-sphere around healthy windows: vectors of scaled covariances (7.2), and the nearest neighbour.
class Sphere {
 public:
  /// Windows of kWindow rows every `stride` rows; with `ahead`, followed by the rows that the models forecast (mode F).
  /// kNotFound: no window, or no part of the trace that can be left out.
  static Result<Sphere> learn(const metric_trace::Series& healthy, const std::vector<size_t>& columns,
                              const std::vector<ModelSet>* ahead, size_t stride = 25);

  /// Distance to the nearest healthy window. REQUIRES: kWindow rows of `columns`, all known.
  double distance(const Eigen::MatrixXd& window) const;
  /// The 99.9th percentile of the distances of healthy windows to those of other parts of the trace.
  double threshold() const { return threshold_; }
  size_t size() const { return vectors_.size(); }

 private:
  metric_trace::PairVector vector_of(const Eigen::MatrixXd& window) const;

  const std::vector<ModelSet>* ahead_ = nullptr;
  std::vector<double> deviations_;
  std::vector<metric_trace::PairVector> vectors_;
  double threshold_ = 0;
};

/// The least of the mean squared distances; void pairs do not count. REQUIRES: `vectors` is not empty.
double nearest_distance(const metric_trace::PairVector& vector,
                        const std::vector<metric_trace::PairVector>& vectors);

/// A polynomial through the values (at 0, 1, 2, ...): of order 1, or of a higher one up to `most` if R² is below `enough`;
/// its next `steps` values (7.5.3). REQUIRES: more values than `most` + 1.
std::vector<double> polynomial_forecast(std::span<const double> values, double enough, int most,
                                        size_t steps);

/// μ ± `times` σ of training: whether one of `values` leaves it.
struct Band {
  double mean = 0, deviation = 0;
  bool left_by(std::span<const double> values, double times) const;
};
Band band_of(std::span<const double> training);

}  // namespace kintsugi::augury

/// A density of errors, smoothed (Mitra 2016, section 3.4.1): how likely an error beyond some size is. Pure.
#pragma once

#include <span>
#include <vector>

namespace kintsugi::behaviour {

/// 0.9 · min(σ, IQR/1.34) · n^(−1/5) (Silverman 1986); when the quartiles fall together σ alone counts.
double kernel_bandwidth(std::span<const double> values);
/// The same, from what is known of them.
double kernel_bandwidth(double deviation, double interquartile_range, double count);

class ErrorDensity {
 public:
  /// The Gaussian kernel density of the errors. REQUIRES: not empty, no NaN.
  static ErrorDensity of(std::vector<double> errors);
  static ErrorDensity normal(double mean, double deviation);

  double mean() const { return mean_; }
  /// The share of all area that lies at or below `error`.
  double below(double error) const;
  /// The error below which `share` of all area lies.
  double quantile(double share) const;
  /// The share of the area right of the mean that lies between the mean and mean + `distance`: p = D / A of Mitra's
  /// figure 3.8b. Not below 0; `distance` below 0 counts as 0.
  double share_right_of_mean(double distance) const;

 private:
  double mean_ = 0, first_ = 0, step_ = 1;
  std::vector<double> below_;  ///< index i: share of the area below first_ + i · step_
};

}  // namespace kintsugi::behaviour

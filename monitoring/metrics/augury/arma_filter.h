/// The innovations of a series under a stationary ARMA model, by the exact filter or the conditional recursion. Pure.
#pragma once

#include <span>
#include <vector>

#include <Eigen/Core>

namespace kintsugi::augury {

/// φ and θ without a mean and a variance.
struct Arma {
  std::vector<double> ar, ma;
};

/// A Kalman filter of the state (Harvey 1993, 4.4): x_t = (w_t, what is known of w_{t+1}, ...). What it does to a series is
/// linear, so several series can go through it side by side: they are the columns.
class ArmaFilter {
 public:
  explicit ArmaFilter(const Arma& arma);

  /// One step: `values` has a value of each series. Innovations are what the filter did not foresee.
  struct Step {
    Eigen::RowVectorXd innovations;
    double variance = 1;  ///< variance of the innovations, in units of ε's
  };
  Step step(const Eigen::Ref<const Eigen::RowVectorXd>& values);

  /// What it foresees `ahead` >= 1 steps after the last, one row each.
  Eigen::MatrixXd foreseen(size_t ahead) const;

 private:
  void predict_covariance();

  Eigen::Index size_;
  Eigen::MatrixXd transition_;
  Eigen::VectorXd effect_;      ///< effect of ε on the state
  Eigen::MatrixXd state_;       ///< foreseen for the next step, a column a series
  Eigen::MatrixXd covariance_;  ///< covariance of the foreseen state
  bool settled_ = false;        ///< the covariance does not change any more
};

/// Autoregressive coefficients of a stationary process for any real numbers, by way of partial correlations
/// (Monahan 1984), and back.
std::vector<double> stationary(std::span<const double> free);
std::vector<double> free_of(std::span<const double> stationary_coefficients);

}  // namespace kintsugi::augury

/// ARIMA models: a series of which the d-th differences w follow
///
///   w_t = μ + φ1 (w_{t-1} - μ) + ... + φp (w_{t-p} - μ) + ε_t + θ1 ε_{t-1} + ... + θq ε_{t-q}
///
/// (Laguna 2012, equation 7.1, there with the constant C = μ (1 - Σφ)). μ is 0 if d > 0. Pure.
#pragma once

#include <span>
#include <vector>

#include <Eigen/Core>

#include "common/base/status.h"

namespace kintsugi::augury {

struct Order {
  int p = 0;  ///< autoregressive terms, at most kHighestOrder
  int d = 0;  ///< differences, at most 2
  int q = 0;  ///< moving-average terms, at most kHighestOrder

  bool operator==(const Order&) const = default;
};
inline constexpr int kHighestOrder = 5;

struct Model {
  Order order;
  std::vector<double> ar, ma;  ///< φ and θ
  double mean = 0;             ///< μ
  double variance = 0;         ///< variance of ε
  double log_likelihood = 0;
  double aic = 0;  ///< compares models of one d: the differences of another d are other data
};

enum class Likelihood : uint8_t {
  kExact,  ///< the likelihood comes from a Kalman filter (Gardner and others 1980)
  kConditional,  ///< the ε before the first p values are taken as 0 ("CSS"): quicker, and nearly the same for long series
};

/// The most likely model of that order, stationary and invertible. kInvalidArgument: the order, fewer than kFewestValues
/// values above d, or a value that is not finite; kNotFound: a series that does not move once it is differenced.
Result<Model> fit(std::span<const double> series, Order order, Likelihood likelihood = Likelihood::kExact);
inline constexpr size_t kFewestValues = 20;

/// The model of the lowest AIC among those of `orders` that fit. kInvalidArgument and kNotFound as fit(), if none fits.
Result<Model> best_fit(std::span<const double> series, std::span<const Order> orders,
                       Likelihood likelihood = Likelihood::kExact);

/// How often a series is to be differenced: the least of 0, 1, 2 after which one more lets it vary no less.
int differences_of(std::span<const double> series);

/// The next values after `values`, of which `innovations` has the last ε (as many as the model has θ, or more).
/// REQUIRES: at least p + d values and q innovations.
std::vector<double> forecast(const Model& model, std::span<const double> values,
                             std::span<const double> innovations, size_t steps);
/// The same with the ε that the exact filter finds in `values`. REQUIRES: more than p + d values.
std::vector<double> forecast(const Model& model, std::span<const double> values, size_t steps);

/// The forecast from windows of one length as one affine map: forecast = weights · window + constant.
struct Forecaster {
  Eigen::MatrixXf weights;  ///< steps by rows of the window
  Eigen::VectorXf constant;
};
Forecaster forecaster(const Model& model, size_t window, size_t steps);

}  // namespace kintsugi::augury

#include "monitoring/metrics/rams/serial_correlation.h"

#include <algorithm>
#include <cmath>

#include <Eigen/LU>
#include <Eigen/QR>
#include <boost/math/distributions/chi_squared.hpp>
#include <boost/math/distributions/normal.hpp>

namespace kintsugi::rams {

namespace {

/// Returns A times `columns`, where u'Au is the sum of squared differences of neighbours of u.
Eigen::MatrixXd times_differences(const Eigen::MatrixXd& columns) {
  const Eigen::Index rows = columns.rows();
  const Eigen::MatrixXd steps = columns.bottomRows(rows - 1) - columns.topRows(rows - 1);
  Eigen::MatrixXd out = Eigen::MatrixXd::Zero(rows, columns.cols());
  out.topRows(rows - 1) -= steps;
  out.bottomRows(rows - 1) += steps;
  return out;
}

}  // namespace

Answer<DurbinWatson> durbin_watson(const Fit& fit) {
  const Eigen::Index n = fit.samples(), k = fit.parameters();
  if (n < k + 2) return NotEnough{Lack::kSamples, static_cast<size_t>(n), static_cast<size_t>(k + 2)};
  if (fit.sum_of_squares() <= 0) return NotEnough{Lack::kMovingResiduals};
  DurbinWatson out;
  const Eigen::VectorXd& u = fit.residuals;
  out.d = (u.tail(n - 1) - u.head(n - 1)).squaredNorm() / u.squaredNorm();
  const Eigen::MatrixXd inverse = (fit.design.transpose() * fit.design).inverse();
  const Eigen::MatrixXd stepped = times_differences(fit.design);
  const Eigen::MatrixXd once = fit.design.transpose() * stepped * inverse;
  const Eigen::MatrixXd twice = stepped.transpose() * stepped * inverse;
  const auto samples = static_cast<double>(n), freedom = static_cast<double>(n - k);
  const double p = 2 * (samples - 1) - once.trace();
  const double q = 2 * (3 * samples - 4) - 2 * twice.trace() + (once * once).trace();
  out.mean = p / freedom;
  out.variance = 2 * (q - p * out.mean) / (freedom * (freedom + 2));
  if (!(out.variance > 0))
    return NotEnough{Lack::kSamples, static_cast<size_t>(n), static_cast<size_t>(n + 1)};
  out.p_normal = boost::math::cdf(boost::math::normal(), (out.d - out.mean) / std::sqrt(out.variance));
  return out;
}

Answer<BreuschGodfrey> breusch_godfrey(const Fit& fit, size_t order, Before before) {
  const Eigen::Index n = fit.samples(), k = fit.parameters();
  const auto lags = static_cast<Eigen::Index>(order);
  const Eigen::Index first = before == Before::kDropsRows ? lags : 0;
  if (n - first < k + lags + 1)
    return NotEnough{Lack::kSamples, static_cast<size_t>(n), static_cast<size_t>(first + k + lags + 1)};
  Eigen::MatrixXd regressors = Eigen::MatrixXd::Zero(n, k + lags);
  regressors.leftCols(k) = fit.design;
  for (Eigen::Index lag = 1; lag <= lags; ++lag)
    regressors.col(k + lag - 1).tail(n - lag) = fit.residuals.head(n - lag);
  const Eigen::Index used = n - first;
  const Eigen::MatrixXd rows = regressors.bottomRows(used);
  const Eigen::VectorXd residuals = fit.residuals.tail(used);
  const double total = residuals.squaredNorm();
  if (total <= 0) return NotEnough{Lack::kMovingResiduals};
  const Eigen::VectorXd rest =
      residuals - rows * Eigen::ColPivHouseholderQR<Eigen::MatrixXd>(rows).solve(residuals);
  BreuschGodfrey out;
  out.lm = std::max(0.0, static_cast<double>(used) * (1 - rest.squaredNorm() / total));
  out.p =
      boost::math::cdf(boost::math::complement(boost::math::chi_squared(static_cast<double>(order)), out.lm));
  return out;
}

double autocorrelation(const Fit& fit) {
  const Eigen::VectorXd& u = fit.residuals;
  const double total = u.squaredNorm();
  return total > 0 ? u.tail(u.size() - 1).dot(u.head(u.size() - 1)) / total : 0;
}

}  // namespace kintsugi::rams

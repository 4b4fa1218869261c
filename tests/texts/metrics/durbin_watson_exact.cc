#include "tests/texts/metrics/durbin_watson_exact.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <Eigen/Eigenvalues>
#include <Eigen/QR>
#include <boost/math/quadrature/gauss_kronrod.hpp>

namespace kintsugi::rams {
namespace {

/// The probability that a sum of `weights` times squares of independent standard normal values is not positive.
double imhof(const Eigen::ArrayXd& weights) {
  const auto integrand = [&](double u) {
    const Eigen::ArrayXd scaled = weights * u;
    const double angle = 0.5 * scaled.atan().sum();
    const double damping = std::exp(0.25 * scaled.square().log1p().sum());
    return std::sin(angle) / (u * damping);
  };
  const double integral = boost::math::quadrature::gauss_kronrod<double, 61>::integrate(
      integrand, 0.0, std::numeric_limits<double>::infinity(), 15, 1e-12);
  return std::clamp(0.5 - integral / std::numbers::pi, 0.0, 1.0);
}

}  // namespace

std::optional<double> durbin_watson_exact_p(const Fit& fit, double d) {
  const Eigen::Index n = fit.samples(), k = fit.parameters();
  if (n > kMostExact || n <= k) return std::nullopt;
  // A basis of the space that is orthogonal to the regressors: there the residuals are independent.
  const Eigen::MatrixXd basis = Eigen::HouseholderQR<Eigen::MatrixXd>(fit.design).householderQ() *
                                Eigen::MatrixXd::Identity(n, n).rightCols(n - k);
  const Eigen::MatrixXd steps = basis.bottomRows(n - 1) - basis.topRows(n - 1);
  const Eigen::MatrixXd form = steps.transpose() * steps;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(form, Eigen::EigenvaluesOnly);
  return imhof(solver.eigenvalues().array() - d);
}

}  // namespace kintsugi::rams

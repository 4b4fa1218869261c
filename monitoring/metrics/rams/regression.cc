#include "monitoring/metrics/rams/regression.h"

#include <cmath>

#include <Eigen/QR>

namespace kintsugi::rams {

namespace {

/// Residuals below this share of the values are what rounding leaves of an exact fit.
constexpr double kExact = 1e-12;

}  // namespace

Answer<Fit> fit_line(const Eigen::Ref<const Eigen::VectorXd>& app,
                     const Eigen::Ref<const Eigen::VectorXd>& os, Line line) {
  const Eigen::Index parameters = line == Line::kWithIntercept ? 2 : 1;
  if (app.size() < parameters + 2)
    return NotEnough{Lack::kSamples, static_cast<size_t>(app.size()), static_cast<size_t>(parameters + 2)};
  if (!app.allFinite() || !os.allFinite()) return NotEnough{Lack::kKnownValues};
  Fit fit;
  fit.design = Eigen::MatrixXd::Ones(app.size(), parameters);
  fit.design.col(parameters - 1) = app;
  const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(fit.design);
  if (qr.rank() < parameters) return NotEnough{Lack::kMovingLoad};
  const Eigen::VectorXd coefficients = qr.solve(os);
  fit.slope = coefficients[parameters - 1];
  if (line == Line::kWithIntercept) fit.intercept = coefficients[0];
  fit.residuals = os - fit.design * coefficients;
  if (fit.residuals.norm() <= kExact * os.norm()) fit.residuals.setZero();
  const double reference = line == Line::kWithIntercept ? os.mean() : 0;
  const double total = (os.array() - reference).square().sum();
  fit.r_squared = total > 0 ? 1 - fit.sum_of_squares() / total : 0;
  fit.sigma = std::sqrt(fit.sum_of_squares() / static_cast<double>(app.size() - parameters));
  return fit;
}

Answer<double> chow_f(const Eigen::Ref<const Eigen::VectorXd>& app,
                      const Eigen::Ref<const Eigen::VectorXd>& os) {
  const Eigen::Index half = app.size() / 2, rest = app.size() - half;
  const auto first = fit_line(app.head(half), os.head(half), Line::kWithIntercept);
  if (!first) return first.error();
  const auto second = fit_line(app.tail(rest), os.tail(rest), Line::kWithIntercept);
  if (!second) return second.error();
  const auto whole = fit_line(app, os, Line::kWithIntercept);
  if (!whole) return whole.error();
  const double apart = first->sum_of_squares() + second->sum_of_squares();
  if (apart <= 0) return NotEnough{Lack::kMovingResiduals};
  const auto parameters = static_cast<double>(whole->parameters());
  const double freedom = static_cast<double>(app.size()) - 2 * parameters;
  return (whole->sum_of_squares() - apart) / parameters / (apart / freedom);
}

}  // namespace kintsugi::rams

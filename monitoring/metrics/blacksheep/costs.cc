#include "monitoring/metrics/blacksheep/costs.h"

#include <algorithm>
#include <cmath>

#include "common/base/statistics.h"
#include "monitoring/metrics/trace/least_squares.h"

namespace kintsugi::blacksheep {

namespace {

/// The variance of windows without a cause is at least half of this quantile of squared residuals: few windows are that quiet.
constexpr double kLeastVarianceAt = 0.25;

Eigen::MatrixXd with_ground(const Eigen::MatrixXd& causes) {
  Eigen::MatrixXd out(causes.rows(), causes.cols() + 1);
  out << Eigen::VectorXd::Ones(causes.rows()), causes;
  return out;
}

/// Returns the x >= 0 for which |a x - b| is least.
Eigen::VectorXd parts_of(const Eigen::MatrixXd& a, const Eigen::VectorXd& b) {
  return metric_trace::least_squares_above_zero(a.transpose() * a, a.transpose() * b);
}

}  // namespace

Costs Costs::learn(const Eigen::MatrixXd& causes, const Eigen::VectorXd& effect) {
  Costs out;
  const Eigen::MatrixXd all = with_ground(causes);
  Eigen::VectorXd weights = Eigen::VectorXd::Ones(effect.size());
  // Twice: the first costs say how far each window may be off, and the second ones heed that.
  for (int round = 0; round < 2; ++round) {
    const Eigen::VectorXd costs = parts_of(weights.asDiagonal() * all, weights.cwiseProduct(effect));
    const Eigen::VectorXd explained = all * costs;
    const Eigen::VectorXd squares = (effect - explained).cwiseAbs2();
    const Eigen::MatrixXd spread = with_ground(explained);
    const Eigen::VectorXd by_spread = weights.cwiseAbs2();
    const Eigen::VectorXd variance =
        parts_of(by_spread.asDiagonal() * spread, by_spread.cwiseProduct(squares));
    out.ground_ = costs[0];
    out.costs_ = costs.tail(costs.size() - 1);
    const double quiet =
        quantile_of({squares.data(), static_cast<size_t>(squares.size())}, kLeastVarianceAt) / 2;
    out.ground_variance_ = std::max({variance[0], quiet, 1e-18});
    out.variance_of_a_unit_ = variance[1];
    weights = (out.ground_variance_ + out.variance_of_a_unit_ * explained.array()).rsqrt();
  }
  return out;
}

double Costs::explained(const Eigen::RowVectorXd& causes) const {
  return ground_ + causes.dot(costs_);
}

double Costs::deviations(const Eigen::RowVectorXd& causes, double effect, double least) const {
  const double expected = explained(causes);
  return (effect - expected) / std::sqrt(ground_variance_ + variance_of_a_unit_ * expected + least * least);
}

}  // namespace kintsugi::blacksheep

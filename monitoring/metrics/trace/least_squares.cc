#include "monitoring/metrics/trace/least_squares.h"

#include <algorithm>
#include <cmath>

namespace kintsugi::metric_trace {
namespace {

constexpr int kMostSweeps = 500;
/// A sweep that moves no part by more than this share of the whole is the last.
constexpr double kStill = 1e-9;

}  // namespace

Eigen::VectorXd least_squares_above_zero(const Eigen::MatrixXd& gram, const Eigen::VectorXd& moments) {
  // Columns are scaled to a length of 1, so that "still" means the same for all of them.
  Eigen::VectorXd scale = gram.diagonal().cwiseMax(0).cwiseSqrt();
  for (double& each : scale)
    each = each > 0 ? each : 1;
  const Eigen::MatrixXd scaled = scale.cwiseInverse().asDiagonal() * gram * scale.cwiseInverse().asDiagonal();
  const Eigen::VectorXd towards = moments.cwiseQuotient(scale);
  Eigen::VectorXd x = Eigen::VectorXd::Zero(moments.size());
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double moved = 0;
    for (Eigen::Index i = 0; i < x.size(); ++i) {
      if (!(scaled(i, i) > 0)) continue;
      const double next = std::max(0.0, x[i] + (towards[i] - scaled.row(i).dot(x)) / scaled(i, i));
      moved = std::max(moved, std::abs(next - x[i]));
      x[i] = next;
    }
    if (moved <= kStill * x.norm()) break;
  }
  return x.cwiseQuotient(scale);
}

}  // namespace kintsugi::metric_trace

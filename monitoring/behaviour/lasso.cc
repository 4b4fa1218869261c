#include "monitoring/behaviour/lasso.h"

#include <algorithm>
#include <cmath>

#include <Eigen/Cholesky>

namespace kintsugi::behaviour {
namespace {

constexpr size_t kMostSweeps = 200;
constexpr double kConverged = 1e-7;
/// A column whose spread is below this share of its size is a constant.
constexpr double kConstant = 1e-12;

}  // namespace

Moments::Moments(size_t terms)
    : sums_(Eigen::MatrixXd::Zero(static_cast<Eigen::Index>(terms) + 2,
                                  static_cast<Eigen::Index>(terms) + 2)) {}

void Moments::add(const Eigen::Ref<const Eigen::MatrixXd>& terms,
                  const Eigen::Ref<const Eigen::VectorXd>& target) {
  add(terms, target, Eigen::VectorXd::Ones(target.size()));
}

void Moments::add(const Eigen::Ref<const Eigen::MatrixXd>& terms,
                  const Eigen::Ref<const Eigen::VectorXd>& target,
                  const Eigen::Ref<const Eigen::VectorXd>& weights) {
  Eigen::MatrixXd rows(terms.rows(), terms.cols() + 2);
  rows.col(0).setOnes();
  rows.middleCols(1, terms.cols()) = terms;
  rows.col(terms.cols() + 1) = target;
  rows = weights.cwiseSqrt().asDiagonal() * rows;
  sums_.noalias() += rows.transpose() * rows;
}

Moments& Moments::operator+=(const Moments& other) {
  sums_ += other.sums_;
  return *this;
}

Moments& Moments::operator-=(const Moments& other) {
  sums_ -= other.sums_;
  return *this;
}

double Moments::residual_squares(const Eigen::VectorXd& coefficients, double intercept) const {
  Eigen::VectorXd weights(sums_.rows());
  weights(0) = -intercept;
  weights.segment(1, coefficients.size()) = -coefficients;
  weights(sums_.rows() - 1) = 1;
  return std::max(0.0, weights.dot(sums_ * weights));
}

Lasso::Lasso(const Moments& moments) {
  const Eigen::MatrixXd& sums = moments.sums();
  const auto terms = static_cast<Eigen::Index>(moments.terms());
  const double n = moments.rows();
  mean_ = sums.row(0).segment(1, terms).transpose() / n;
  target_mean_ = sums(0, terms + 1) / n;
  correlation_ = sums.block(1, 1, terms, terms) / n - mean_ * mean_.transpose();
  with_target_ = sums.col(terms + 1).segment(1, terms) / n - mean_ * target_mean_;
  scale_ = Eigen::VectorXd::Zero(terms);
  for (Eigen::Index j = 0; j < terms; ++j) {
    const double variance = correlation_(j, j);
    scale_(j) = variance > kConstant * (sums(j + 1, j + 1) / n) && variance > 0 ? 1 / std::sqrt(variance) : 0;
  }
  correlation_ = scale_.asDiagonal() * correlation_ * scale_.asDiagonal();
  with_target_ = with_target_.cwiseProduct(scale_);
  beta_ = Eigen::VectorXd::Zero(terms);
  largest_penalty_ = terms > 0 ? with_target_.cwiseAbs().maxCoeff() : 0;
}

const Eigen::VectorXd& Lasso::solve(double penalty) {
  // gradient_j = (1/n) x_j · (y − Xβ), kept up to date as coefficients move.
  Eigen::VectorXd gradient = with_target_ - correlation_ * beta_;
  const double enough = kConverged * std::max(largest_penalty_, 1e-300);
  for (size_t sweep = 0; sweep < kMostSweeps; ++sweep) {
    double moved = 0;
    for (Eigen::Index j = 0; j < beta_.size(); ++j) {
      if (scale_(j) == 0) continue;
      const double b = gradient(j) + beta_(j);
      const double next = std::copysign(std::max(std::abs(b) - penalty, 0.0), b);
      const double step = next - beta_(j);
      if (step == 0) continue;
      beta_(j) = next;
      gradient.noalias() -= step * correlation_.col(j);
      moved = std::max(moved, std::abs(step));
    }
    if (moved <= enough) break;
  }
  return beta_;
}

Line Lasso::line() const {
  Line line;
  line.coefficients = beta_.cwiseProduct(scale_);
  line.intercept = target_mean_ - line.coefficients.dot(mean_);
  return line;
}

Line Lasso::relaxed() const {
  std::vector<Eigen::Index> chosen;
  for (Eigen::Index j = 0; j < beta_.size(); ++j)
    if (beta_(j) != 0) chosen.push_back(j);
  return over(chosen);
}

Line Lasso::over(const std::vector<Eigen::Index>& chosen) const {
  const auto count = static_cast<Eigen::Index>(chosen.size());
  Eigen::MatrixXd matrix(count, count);
  Eigen::VectorXd right(count);
  for (Eigen::Index a = 0; a < count; ++a) {
    right(a) = with_target_(chosen[a]);
    for (Eigen::Index b = 0; b < count; ++b)
      matrix(a, b) = correlation_(chosen[a], chosen[b]);
    matrix(a, a) += 1e-9;  // regularisation, because terms may be collinear
  }
  Line line;
  line.coefficients = Eigen::VectorXd::Zero(beta_.size());
  if (count > 0) {
    const Eigen::VectorXd solved = matrix.ldlt().solve(right);
    for (Eigen::Index a = 0; a < count; ++a)
      line.coefficients(chosen[a]) = solved(a) * scale_(chosen[a]);
  }
  line.intercept = target_mean_ - line.coefficients.dot(mean_);
  return line;
}

std::vector<double> penalty_path(double largest, size_t count) {
  std::vector<double> path;
  for (size_t i = 0; i < count; ++i)
    path.push_back(largest * std::pow(1e-3, static_cast<double>(i) /
                                                static_cast<double>(std::max<size_t>(count, 2) - 1)));
  return path;
}

}  // namespace kintsugi::behaviour

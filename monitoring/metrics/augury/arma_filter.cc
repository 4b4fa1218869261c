#include "monitoring/metrics/augury/arma_filter.h"

#include <algorithm>
#include <cmath>

#include <Eigen/LU>

namespace kintsugi::augury {
namespace {

/// P = T P Tᵀ + R Rᵀ as a linear system.
Eigen::MatrixXd stationary_covariance(const Eigen::MatrixXd& transition, const Eigen::VectorXd& effect) {
  const Eigen::Index n = transition.rows();
  Eigen::MatrixXd system = Eigen::MatrixXd::Identity(n * n, n * n);
  for (Eigen::Index i = 0; i < n; ++i)
    for (Eigen::Index j = 0; j < n; ++j)
      system.block(i * n, j * n, n, n) -= transition(i, j) * transition;
  const Eigen::MatrixXd noise = effect * effect.transpose();
  const Eigen::VectorXd solved = system.partialPivLu().solve(noise.reshaped());
  return solved.reshaped(n, n);
}

}  // namespace

ArmaFilter::ArmaFilter(const Arma& arma)
    : size_(static_cast<Eigen::Index>(std::max(arma.ar.size(), arma.ma.size() + 1))),
      transition_(Eigen::MatrixXd::Zero(size_, size_)),
      effect_(Eigen::VectorXd::Zero(size_)) {
  for (size_t i = 0; i < arma.ar.size(); ++i)
    transition_(static_cast<Eigen::Index>(i), 0) = arma.ar[i];
  for (Eigen::Index i = 0; i + 1 < size_; ++i)
    transition_(i, i + 1) = 1;
  effect_(0) = 1;
  for (size_t i = 0; i < arma.ma.size(); ++i)
    effect_(static_cast<Eigen::Index>(i + 1)) = arma.ma[i];
  covariance_ = stationary_covariance(transition_, effect_);
}

ArmaFilter::Step ArmaFilter::step(const Eigen::Ref<const Eigen::RowVectorXd>& values) {
  if (state_.cols() == 0) state_.setZero(size_, values.size());
  Step out{.innovations = values - state_.row(0), .variance = covariance_(0, 0)};
  state_ += covariance_.col(0) / out.variance * out.innovations;
  state_ = transition_ * state_;
  if (!settled_) predict_covariance();
  return out;
}

void ArmaFilter::predict_covariance() {
  const Eigen::MatrixXd updated = covariance_ - covariance_.col(0) * covariance_.row(0) / covariance_(0, 0);
  const Eigen::MatrixXd next =
      transition_ * updated * transition_.transpose() + effect_ * effect_.transpose();
  settled_ = (next - covariance_).cwiseAbs().maxCoeff() < 1e-13;
  covariance_ = next;
}

Eigen::MatrixXd ArmaFilter::foreseen(size_t ahead) const {
  Eigen::MatrixXd out(static_cast<Eigen::Index>(ahead), state_.cols());
  Eigen::MatrixXd state = state_;
  for (Eigen::Index i = 0; i < out.rows(); ++i) {
    out.row(i) = state.row(0);
    state = transition_ * state;
  }
  return out;
}

std::vector<double> stationary(std::span<const double> free) {
  std::vector<double> out;
  for (const double each : free) {
    const double partial = std::tanh(each);
    std::vector<double> longer = out;
    for (size_t i = 0; i < out.size(); ++i)
      longer[i] = out[i] - partial * out[out.size() - 1 - i];
    longer.push_back(partial);
    out = std::move(longer);
  }
  return out;
}

std::vector<double> free_of(std::span<const double> stationary_coefficients) {
  std::vector<double> rest(stationary_coefficients.begin(), stationary_coefficients.end());
  std::vector<double> out(rest.size());
  for (size_t n = rest.size(); n > 0; --n) {
    const double partial = std::clamp(rest[n - 1], -0.97, 0.97);
    out[n - 1] = std::atanh(partial);
    std::vector<double> shorter(n - 1);
    for (size_t i = 0; i + 1 < n; ++i)
      shorter[i] = (rest[i] + partial * rest[n - 2 - i]) / (1 - partial * partial);
    rest = std::move(shorter);
  }
  return out;
}

}  // namespace kintsugi::augury

/// The minimum of a smooth function of a few variables. Pure.
#pragma once

#include <functional>

#include <Eigen/Core>

namespace kintsugi::augury {

struct Minimum {
  Eigen::VectorXd at;
  double value = 0;
};

/// BFGS with gradients by central differences, from `start`. Ends when a step improves by less than a ten-billionth of the
/// value, or after kMostSteps. A value that is not finite is taken for a hill.
Minimum minimise(const std::function<double(const Eigen::VectorXd&)>& function, Eigen::VectorXd start);
inline constexpr int kMostSteps = 100;

}  // namespace kintsugi::augury

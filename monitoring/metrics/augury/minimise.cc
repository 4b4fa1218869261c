#include "monitoring/metrics/augury/minimise.h"

#include <cmath>

namespace kintsugi::augury {
namespace {

using Function = std::function<double(const Eigen::VectorXd&)>;

Eigen::VectorXd gradient(const Function& function, const Eigen::VectorXd& at) {
  Eigen::VectorXd out(at.size());
  for (Eigen::Index i = 0; i < at.size(); ++i) {
    const double step = 1e-5 * std::max(1.0, std::abs(at(i)));
    Eigen::VectorXd below = at, above = at;
    below(i) -= step;
    above(i) += step;
    out(i) = (function(above) - function(below)) / (2 * step);
  }
  return out;
}

/// Halves the step until the value falls as the slope promises; 0: it does not.
double length_of_step(const Function& function, const Minimum& now, const Eigen::VectorXd& direction,
                      double slope) {
  for (double length = 1; length > 1e-8; length /= 2) {
    const double value = function(now.at + length * direction);
    if (std::isfinite(value) && value <= now.value + 1e-4 * length * slope) return length;
  }
  return 0;
}

}  // namespace

Minimum minimise(const Function& function, Eigen::VectorXd start) {
  Minimum now{.at = std::move(start), .value = 0};
  now.value = function(now.at);
  if (now.at.size() == 0 || !std::isfinite(now.value)) return now;
  Eigen::MatrixXd inverse = Eigen::MatrixXd::Identity(now.at.size(), now.at.size());
  Eigen::VectorXd slope = gradient(function, now.at);
  bool fresh = true;  // The inverse Hessian is still the identity.
  for (int step = 0; step < kMostSteps && slope.allFinite(); ++step) {
    Eigen::VectorXd direction = -(inverse * slope);
    const double length = length_of_step(function, now, direction, slope.dot(direction));
    if (length == 0) {
      if (fresh) break;
      inverse.setIdentity();
      fresh = true;
      continue;
    }
    const Eigen::VectorXd moved = length * direction;
    const double before = now.value;
    now.at += moved;
    now.value = function(now.at);
    const Eigen::VectorXd next = gradient(function, now.at);
    const Eigen::VectorXd bent = next - slope;
    slope = next;
    if (before - now.value <= 1e-10 * (std::abs(now.value) + 1e-10)) {
      if (fresh) break;
      inverse.setIdentity();
      fresh = true;
      continue;
    }
    const double curvature = moved.dot(bent);
    if (curvature <= 1e-12) continue;
    const Eigen::MatrixXd left =
        Eigen::MatrixXd::Identity(moved.size(), moved.size()) - moved * bent.transpose() / curvature;
    inverse = left * inverse * left.transpose() + moved * moved.transpose() / curvature;
    fresh = false;
  }
  return now;
}

}  // namespace kintsugi::augury

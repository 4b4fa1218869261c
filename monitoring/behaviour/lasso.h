/// Least squares with a penalty on the sum of the coefficients' magnitudes (Tibshirani 1996), by coordinate descent.
/// Pure.
#pragma once

#include <cstddef>
#include <vector>

#include <Eigen/Core>

namespace kintsugi::behaviour {

/// Sums of products of rows [terms…, target], from which any fit follows: sums of two sets of rows add, and one set
/// may be taken from another.
class Moments {
 public:
  explicit Moments(size_t terms = 0);
  /// Adds rows, each of which counts as its weight says. REQUIRES: `terms` has terms() columns, and as many rows as
  /// the others.
  void add(const Eigen::Ref<const Eigen::MatrixXd>& terms, const Eigen::Ref<const Eigen::VectorXd>& target,
           const Eigen::Ref<const Eigen::VectorXd>& weights);
  /// The same, each row once.
  void add(const Eigen::Ref<const Eigen::MatrixXd>& terms, const Eigen::Ref<const Eigen::VectorXd>& target);
  Moments& operator+=(const Moments& other);
  Moments& operator-=(const Moments& other);

  size_t terms() const { return static_cast<size_t>(sums_.rows()) - 2; }
  /// The sum of the weights.
  double rows() const { return sums_(0, 0); }
  /// The sums of the products of [1, terms…, target].
  const Eigen::MatrixXd& sums() const { return sums_; }
  /// The sum of squares of target − (intercept + terms · coefficients).
  double residual_squares(const Eigen::VectorXd& coefficients, double intercept) const;

 private:
  Eigen::MatrixXd sums_;
};

struct Line {
  Eigen::VectorXd coefficients;  ///< coefficients for the original terms, not for the standardised ones
  double intercept = 0;
};

/// min 1/(2n) |y − Xβ|² + λ |β|₁ with columns standardised and y centred.
class Lasso {
 public:
  explicit Lasso(const Moments& moments);
  /// The least λ at which every coefficient is 0.
  double largest_penalty() const { return largest_penalty_; }
  /// The coefficients of standardised terms at λ; the solution of a call is where the next one starts.
  const Eigen::VectorXd& solve(double penalty);
  /// The last solution in the terms' own units.
  Line line() const;
  /// Ordinary least squares over the terms whose coefficient is not 0 now: what is left when the penalty has chosen.
  Line relaxed() const;
  /// Ordinary least squares over these terms.
  Line over(const std::vector<Eigen::Index>& terms) const;

 private:
  Eigen::MatrixXd correlation_;  ///< correlation matrix of the terms, divided by n
  Eigen::VectorXd with_target_, mean_, scale_, beta_;
  double target_mean_, largest_penalty_;
};

/// `count` penalties from `largest` down to a thousandth of it, evenly in their logarithm.
std::vector<double> penalty_path(double largest, size_t count);

}  // namespace kintsugi::behaviour

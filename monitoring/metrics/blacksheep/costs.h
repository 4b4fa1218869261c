/// What causes cost: an effect as a sum of costs that are never negative, and how far it usually is from that sum. Pure.
#pragma once

#include <Eigen/Core>

namespace kintsugi::blacksheep {

/// The spread grows with what is explained: of many executions each costs a little more or less.
class Costs {
 public:
  /// A row for each window: its causes, and the effect. REQUIRES: all are finite and not negative; at least one row.
  static Costs learn(const Eigen::MatrixXd& causes, const Eigen::VectorXd& effect);

  double explained(const Eigen::RowVectorXd& causes) const;
  /// How far the effect is from that, in deviations of at least `least`.
  double deviations(const Eigen::RowVectorXd& causes, double effect, double least) const;
  /// Returns what one unit of the dearest cause costs.
  double highest() const { return costs_.size() == 0 ? 0 : costs_.maxCoeff(); }
  /// Returns the effect that is there without any cause.
  double ground() const { return ground_; }

 private:
  double ground_ = 0;
  Eigen::VectorXd costs_;                                ///< index: cause
  double ground_variance_ = 0, variance_of_a_unit_ = 0;  ///< a unit of what is explained
};

}  // namespace kintsugi::blacksheep

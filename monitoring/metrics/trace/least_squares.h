/// Sums of parts that are never negative. Pure.
#pragma once

#include <Eigen/Core>

namespace kintsugi::metric_trace {

/// The x >= 0 for which |a x - b| is least, by coordinate descent, as nearly as some hundred sweeps come. `gram`: a'a,
/// `moments`: a'b. A column of zeros has the part 0.
Eigen::VectorXd least_squares_above_zero(const Eigen::MatrixXd& gram, const Eigen::VectorXd& moments);

}  // namespace kintsugi::metric_trace

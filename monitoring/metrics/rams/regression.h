/// The line that a process's work in the system follows when its own work is given. Pure.
#pragma once

#include <Eigen/Core>

#include "monitoring/metrics/trace/not_enough.h"

namespace kintsugi::rams {

using metric_trace::Answer;
using metric_trace::Lack;
using metric_trace::NotEnough;

/// The text (Tan 2008, section 5.1.1) fits a line through the origin; with an intercept the residuals of a healthy process
/// with a constant part of system work have no trend.
enum class Line : uint8_t { kThroughOrigin, kWithIntercept };

struct Fit {
  double intercept = 0, slope = 0;
  double r_squared = 0;       ///< R² of a line through the origin: against zero, not against the mean
  double sigma = 0;           ///< deviation of the residuals, with the lost degrees of freedom
  Eigen::MatrixXd design;     ///< rows of the regressors
  Eigen::VectorXd residuals;  ///< what was seen less what the line says

  double at(double app) const { return intercept + slope * app; }
  double sum_of_squares() const { return residuals.squaredNorm(); }
  Eigen::Index samples() const { return design.rows(); }
  Eigen::Index parameters() const { return design.cols(); }
};

/// Least squares of `os` on `app`. REQUIRES: they are of one length.
/// kSamples: fewer than two more than the line has parameters; kKnownValues: a NaN; kMovingLoad: all app are equal.
Answer<Fit> fit_line(const Eigen::Ref<const Eigen::VectorXd>& app,
                     const Eigen::Ref<const Eigen::VectorXd>& os, Line line);

/// The F of Chow's test that the halves of the samples follow two lines rather than one, with intercepts. Errors: as
/// fit_line() for a half; kMovingResiduals: the halves fit exactly.
Answer<double> chow_f(const Eigen::Ref<const Eigen::VectorXd>& app,
                      const Eigen::Ref<const Eigen::VectorXd>& os);

}  // namespace kintsugi::rams

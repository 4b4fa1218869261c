/// Tests whether the residuals of a fit follow one another, as they do when a process left the line it was on. Pure.
#pragma once

#include "monitoring/metrics/rams/regression.h"

namespace kintsugi::rams {

/// Small p: neighbouring residuals are alike. Large p: they alternate.
struct DurbinWatson {
  double d = 0;                   ///< about 2 (1 - autocorrelation)
  double mean = 0, variance = 0;  ///< exact moments of d without correlation
  double p_normal = 0;            ///< one-sided, of the normal approximation with these moments
};

/// kMovingResiduals: all are zero; kSamples: no degree of freedom is left.
Answer<DurbinWatson> durbin_watson(const Fit& fit);

/// What stands for the residuals before the first one.
enum class Before : uint8_t {
  kZeros,
  kDropsRows,  ///< the samples without all their predecessors are left out
};

/// Two-sided: residuals that alternate are as remarkable as residuals that stay.
struct BreuschGodfrey {
  double lm = 0;
  double p = 0;  ///< chi-squared with `order` degrees of freedom
};

/// kMovingResiduals: all are zero; kSamples: too few for so many lags. REQUIRES: order > 0.
Answer<BreuschGodfrey> breusch_godfrey(const Fit& fit, size_t order = 1, Before before = Before::kZeros);

/// The autocorrelation of the residuals at lag 1; 0 if all are zero.
double autocorrelation(const Fit& fit);

}  // namespace kintsugi::rams

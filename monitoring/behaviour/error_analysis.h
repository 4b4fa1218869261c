/// How far the predictions of a model may be trusted: "E-Analyzer" in Mitra 2016, section 3.4 and algorithm 3. Pure.
#pragma once

#include <limits>
#include <span>
#include <vector>

#include "monitoring/behaviour/density.h"
#include "monitoring/behaviour/estimator.h"
#include "monitoring/behaviour/isotonic.h"

namespace kintsugi::behaviour {

struct ErrorSettings {
  /// Drawing continues until the errors of odd and even rounds differ by less than this (Kolmogorov and Smirnov), or
  /// that many rounds were made.
  double stable = 0.02;
  size_t rounds = 200;
  double training_share = 0.7;
  size_t round_samples = 1024;       ///< executions drawn in one round, training and test together
  double extrapolation_share = 0.5;  ///< "k" of algorithm 3
  size_t least_similar = 40;         ///< executions needed that are alike in the other inputs
  size_t extrapolation_samples = 1024;
  ErrorByDistance::Shape shape = ErrorByDistance::Shape::kRising;
  bool both_tails = true;  ///< whether to learn from the upper half, too, which errors below 0 to expect
  /// Inside of the range of what was learnt an input adds nothing, and the mean error inside is counted once. False:
  /// every input's curve counts everywhere, as in the text.
  bool range_counts = true;
  /// What the model's own form errs by beyond the half that it is fitted to; that the form may be another is for its
  /// rivals to say. False: what the form errs by that this half alone would choose, as in the text.
  bool same_form = true;

  static ErrorSettings text() {
    return {.shape = ErrorByDistance::Shape::kQuadratic,
            .both_tails = false,
            .range_counts = false,
            .same_form = false};
  }
};

/// (actual − predicted) / predicted; the sizes of both when predicted is 0.
double relative_error(double actual, double predicted);

/// The largest difference of two empirical distributions. 1 when one is empty.
double kolmogorov_distance(std::vector<double> a, std::vector<double> b);

/// Errors of predictions of executions that the model did not see, while it saw others like them.
struct InterpolationErrors {
  std::vector<double> errors;
  size_t rounds = 0;
  bool stable = false;
};
InterpolationErrors interpolation_errors(const Samples& samples, const Estimator& model,
                                         const ErrorSettings& settings, uint64_t seed);

/// Where the values of one input lay that a model learnt from.
struct Range {
  double mean = 0, deviation = 0;  ///< mean and standard deviation of the values
  double low = 0, high = 0;
  /// How many deviations `value` is from the mean. Of a constant input: 0 when it is equal, else infinite, that is
  /// unknown.
  double distance(double value) const;
  static Range of(std::span<const double> values);
};

/// Ψ of equation 3.1: the error by the base input whole, each other one by the part that is independent of it.
/// `mic_to_base` as long as `others`.
double combined_error(double base, std::span<const double> others, std::span<const double> mic_to_base);

/// How large the errors inside are.
struct ErrorSizes {
  double mean = 0, median = 0;
  /// How much larger the mean is, which a heavy tail moves and the median not.
  double ratio() const { return median > 0 ? mean / median : 1; }
};

/// How the error grows with the distance from what was learnt, input by input.
class ExtrapolationErrors {
 public:
  struct At {
    double error = 0;   ///< mean size of the relative error to expect there
    bool known = true;  ///< false: a constant input has another value, so nothing can be said
    struct Beyond {
      size_t input;
      double distance;  ///< distance in standard deviations
    };
    std::vector<Beyond> beyond;  ///< inputs whose values lie outside of what was learnt
  };
  static ExtrapolationErrors learn(const Samples& samples, const Estimator& model, const FitSettings& fit,
                                   const ErrorSettings& settings, const ErrorSizes& inside);
  At at(std::span<const double> inputs) const;
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  double error_along(size_t input, double value) const;

  ErrorSettings settings_;
  double inside_ = 0;
  std::vector<Range> ranges_;
  std::vector<ErrorByDistance> above_, below_;  ///< index: input
  /// MIC of each pair of inputs' error components, over the executions.
  std::vector<std::vector<double>> mic_;
};

}  // namespace kintsugi::behaviour

/// Everything that was learnt of one observation of one module: what to expect, and how surely. Pure.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "monitoring/behaviour/error_analysis.h"
#include "monitoring/behaviour/estimator.h"
#include "monitoring/behaviour/guardian.h"

namespace kintsugi::behaviour {

struct LearningSettings {
  FitSettings fit;
  ErrorSettings errors;
  /// Only more, or slower, than predicted is an anomaly. The text takes both.
  bool more_only = true;
  /// Outside of what was learnt, an error that a form makes which fits as well inside is to be expected. The text
  /// knows one form only.
  bool rivals_count = true;

  static LearningSettings text() {
    return {.fit = FitSettings::text(),
            .errors = ErrorSettings::text(),
            .more_only = false,
            .rivals_count = false};
  }
};

class ObservationModel {
 public:
  struct Interval {
    double low, high;
  };

  /// REQUIRES: at least 8 samples, no NaN.
  static ObservationModel learn(const Samples& samples, const LearningSettings& settings);

  /// False: its out-of-fold R² is too low for a detector.
  bool usable() const { return usable_; }
  double r2() const { return estimator_->r2(); }
  const Estimator& estimator() const { return *estimator_; }
  size_t learnt_from() const { return learnt_from_; }

  /// `factor`: how much slower than the others the server is that this ran on, as a rule; predictions are multiplied
  /// by it.
  Judgement judge(std::span<const double> inputs, double actual, double factor = 1) const;
  /// Where `share` of all executions with these inputs lie.
  Interval interval(std::span<const double> inputs, double share, double factor = 1) const;
  /// Our rule for alarms. Far: an error that one normal execution of a thousand has, or the least share that the
  /// samples can tell; off: that one of twenty has. The chances say which shares they are.
  bool is_far(const Judgement& judgement) const { return exceeds(judgement, far_error_); }
  bool is_off(const Judgement& judgement) const { return exceeds(judgement, off_error_); }
  double far_chance() const { return far_chance_; }
  double off_chance() const { return off_chance_; }
  const ErrorDensity& inside() const { return *inside_; }
  /// The inputs it learnt from.
  const std::vector<Range>& ranges() const { return beyond_.ranges(); }
  /// With a section of its own for what lies in [low, high] of an input. How errors are distributed is kept.
  ObservationModel with_region(size_t input, double low, double high, const Samples& samples) const;

 private:
  ExtrapolationErrors::At expected_at(std::span<const double> inputs) const;
  bool exceeds(const Judgement& judgement, double inside) const;

  LearningSettings settings_;
  std::optional<Estimator> estimator_;
  std::optional<ErrorDensity> inside_;
  ExtrapolationErrors beyond_;
  bool usable_ = false;
  size_t learnt_from_ = 0;
  double inside_error_ = 0, far_error_ = 0, far_chance_ = 0, off_error_ = 0, off_chance_ = 0;
};

}  // namespace kintsugi::behaviour

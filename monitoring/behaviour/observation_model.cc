#include "monitoring/behaviour/observation_model.h"

#include <algorithm>
#include <cmath>

#include "common/base/statistics.h"

namespace kintsugi::behaviour {
namespace {

/// The shares of normal executions that are far off, when there are samples enough to tell, and off.
constexpr double kFarChance = 0.001, kOffChance = 0.05;
/// A quantile needs at least this many samples beyond it.
constexpr double kSamplesBeyond = 3;

}  // namespace

ObservationModel ObservationModel::learn(const Samples& samples, const LearningSettings& settings) {
  ObservationModel out;
  out.settings_ = settings;
  out.learnt_from_ = samples.size();
  out.estimator_ = Estimator::fit(samples, settings.fit);
  out.usable_ = out.estimator_->r2() >= settings.fit.least_r2;
  auto errors = interpolation_errors(samples, *out.estimator_, settings.errors, settings.fit.seed).errors;
  if (errors.empty()) errors.push_back(0);
  std::vector<double> sizes;
  for (double error : errors)
    sizes.push_back(std::abs(error));
  std::sort(sizes.begin(), sizes.end());
  out.inside_error_ = mean_of(sizes);
  out.far_chance_ = std::min(0.5, std::max(kFarChance, kSamplesBeyond / static_cast<double>(samples.size())));
  out.off_chance_ = std::max(kOffChance, out.far_chance_);
  out.far_error_ = quantile_of_sorted(sizes, 1 - out.far_chance_);
  out.off_error_ = quantile_of_sorted(sizes, 1 - out.off_chance_);
  out.inside_ = ErrorDensity::of(std::move(errors));
  out.beyond_ = ExtrapolationErrors::learn(samples, *out.estimator_, settings.fit, settings.errors,
                                           {.mean = out.inside_error_, .median = median_of(sizes)});
  return out;
}

Judgement ObservationModel::judge(std::span<const double> inputs, double actual, double factor) const {
  const double predicted = estimator_->predict(inputs) * factor;
  return behaviour::judge(predicted, relative_error(actual, predicted), expected_at(inputs), *inside_,
                          settings_.more_only);
}

ExtrapolationErrors::At ObservationModel::expected_at(std::span<const double> inputs) const {
  ExtrapolationErrors::At at = beyond_.at(inputs);
  if (!at.beyond.empty() && settings_.rivals_count)
    at.error = std::hypot(at.error, estimator_->section(inputs).disagreement(inputs));
  return at;
}

ObservationModel::Interval ObservationModel::interval(std::span<const double> inputs, double share,
                                                      double factor) const {
  const double predicted = estimator_->predict(inputs) * factor, tail = (1 - share) / 2;
  // Far from what was learnt the errors are as much wider as their mean size is.
  const double wider = inside_error_ > 0 ? std::max(1.0, expected_at(inputs).error / inside_error_) : 1;
  return {.low = predicted * (1 + inside_->quantile(tail) * wider),
          .high = predicted * (1 + inside_->quantile(1 - tail) * wider)};
}

bool ObservationModel::exceeds(const Judgement& judgement, double inside) const {
  if (!judgement.known) return false;
  const double size = settings_.more_only ? judgement.error : std::abs(judgement.error);
  return size > inside + std::max(0.0, judgement.expected - inside_error_);
}

ObservationModel ObservationModel::with_region(size_t input, double low, double high,
                                               const Samples& samples) const {
  ObservationModel out = *this;
  out.estimator_ = estimator_->with_region(input, low, high, samples, settings_.fit);
  return out;
}

}  // namespace kintsugi::behaviour

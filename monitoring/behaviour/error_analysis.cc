#include "monitoring/behaviour/error_analysis.h"

#include <algorithm>
#include <cmath>

#include "common/base/draws.h"
#include "common/base/statistics.h"
#include "monitoring/behaviour/mic.h"

namespace kintsugi::behaviour {
namespace {

constexpr size_t kQuintiles = 5;
constexpr size_t kMicSamples = 128;
/// This share of an input's values at either end does not count as its range: one stray value is no experience.
constexpr double kStray = 0.005;
/// Rounds before the first look at whether the errors are stable.
constexpr size_t kLeastRounds = 10;

/// The executions whose other inputs are alike: within one bin of their quintiles around the most populated cell.
std::vector<size_t> alike(const Samples& samples, size_t input) {
  const size_t n = samples.size(), features = samples.features();
  std::vector<std::vector<size_t>> bins(features, std::vector<size_t>(n, 0));
  std::map<std::vector<size_t>, size_t> population;
  for (size_t f = 0; f < features; ++f) {
    std::vector<double> sorted = samples.inputs[f];
    std::sort(sorted.begin(), sorted.end());
    for (size_t q = 1; q < kQuintiles; ++q) {
      const double edge = quantile_of_sorted(sorted, static_cast<double>(q) / kQuintiles);
      for (size_t i = 0; i < n; ++i)
        bins[f][i] += samples.inputs[f][i] > edge ? 1 : 0;
    }
  }
  const auto cell_of = [&](size_t i) {
    std::vector<size_t> cell;
    for (size_t f = 0; f < features; ++f)
      if (f != input) cell.push_back(bins[f][i]);
    return cell;
  };
  for (size_t i = 0; i < n; ++i)
    ++population[cell_of(i)];
  const auto fullest = std::max_element(population.begin(), population.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<size_t> out;
  for (size_t i = 0; i < n; ++i) {
    const auto cell = cell_of(i);
    bool near = true;
    for (size_t c = 0; c < cell.size(); ++c)
      near = near && std::max(cell[c], fullest->first[c]) - std::min(cell[c], fullest->first[c]) <= 1;
    if (near) out.push_back(i);
  }
  return out;
}

/// The executions as they would have been had the other inputs been at their medians, as far as the model can say.
Samples projected(const Samples& samples, size_t input, const Estimator& model) {
  std::vector<double> medians;
  for (const auto& column : samples.inputs)
    medians.push_back(median_of(column));
  Samples out = samples;
  const bool positive = all_positive(samples);
  for (size_t i = 0; i < samples.size(); ++i) {
    std::vector<double> moved = medians;
    moved[input] = samples.inputs[input][i];
    const double there = model.predict(moved), here = model.predict(samples.row(i));
    if (positive && there > 0 && here > 0)
      out.observed[i] *= there / here;
    else
      out.observed[i] += there - here;
    for (size_t f = 0; f < samples.features(); ++f)
      out.inputs[f][i] = moved[f];
  }
  return out;
}

Samples thinned(const Samples& samples, size_t count, uint64_t seed) {
  if (samples.size() <= count) return samples;
  Draws draws(seed);
  auto order = draws.permutation(samples.size());
  order.resize(count);
  std::sort(order.begin(), order.end());
  return samples.select(order);
}

/// (distance, error's size) of what lies beyond the half that was learnt. `upper`: the upper half is learnt.
std::vector<std::pair<double, double>> errors_beyond(const Samples& similar, size_t input, bool upper,
                                                     const Estimator& whole, const FitSettings& fit,
                                                     const ErrorSettings& errors) {
  std::vector<size_t> order(similar.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  const auto& along = similar.inputs[input];
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return upper ? along[a] > along[b] : along[a] < along[b]; });
  const auto learnt = static_cast<size_t>(errors.extrapolation_share * static_cast<double>(order.size()));
  if (learnt < 4 || learnt == order.size()) return {};
  const Samples training =
      similar.select({order.begin(), order.begin() + static_cast<std::ptrdiff_t>(learnt)});
  const Range range = Range::of(training.inputs[input]);
  if (range.deviation == 0) return {};
  FitSettings settings = fit;
  settings.split_depth = 0;
  // A section beside a split does not follow from the half: it would be the one that was fitted to everything.
  const bool same_form = errors.same_form && whole.sections() == 1;
  const Estimator model = same_form ? whole.refit(training) : Estimator::fit(training, settings);
  std::vector<std::pair<double, double>> out;
  for (size_t k = learnt; k < order.size(); ++k) {
    const double error = relative_error(similar.observed[order[k]], model.predict(similar.row(order[k])));
    if (std::isfinite(error)) out.emplace_back(range.distance(along[order[k]]), std::abs(error));
  }
  return out;
}

}  // namespace

double relative_error(double actual, double predicted) {
  return predicted != 0 ? (actual - predicted) / std::abs(predicted) : actual - predicted;
}

double kolmogorov_distance(std::vector<double> a, std::vector<double> b) {
  if (a.empty() || b.empty()) return 1;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  double largest = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const double at = std::min(a[i], b[j]);
    while (i < a.size() && a[i] == at)
      ++i;
    while (j < b.size() && b[j] == at)
      ++j;
    largest = std::max(largest, std::abs(static_cast<double>(i) / static_cast<double>(a.size()) -
                                         static_cast<double>(j) / static_cast<double>(b.size())));
  }
  return largest;
}

InterpolationErrors interpolation_errors(const Samples& samples, const Estimator& model,
                                         const ErrorSettings& settings, uint64_t seed) {
  InterpolationErrors out;
  Draws draws(seed);
  std::vector<double> pools[2];
  const size_t used = std::min(samples.size(), settings.round_samples);
  const auto training =
      std::max<size_t>(1, static_cast<size_t>(settings.training_share * static_cast<double>(used)));
  while (out.rounds < settings.rounds && !out.stable) {
    const auto order = draws.permutation(samples.size());
    const Samples learnt =
        samples.select({order.begin(), order.begin() + static_cast<std::ptrdiff_t>(training)});
    const Estimator drawn = model.refit(learnt);
    for (size_t k = training; k < used; ++k) {
      const double error = relative_error(samples.observed[order[k]], drawn.predict(samples.row(order[k])));
      if (std::isfinite(error)) pools[out.rounds % 2].push_back(error);
    }
    ++out.rounds;
    if (out.rounds >= kLeastRounds && out.rounds % 2 == 0)
      out.stable = kolmogorov_distance(pools[0], pools[1]) < settings.stable;
  }
  out.errors = std::move(pools[0]);
  out.errors.insert(out.errors.end(), pools[1].begin(), pools[1].end());
  return out;
}

Range Range::of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return {.mean = mean_of(values),
          .deviation = deviation_of(values),
          .low = quantile_of_sorted(sorted, kStray),
          .high = quantile_of_sorted(sorted, 1 - kStray)};
}

double Range::distance(double value) const {
  if (deviation > 0) return std::abs(value - mean) / deviation;
  return value == mean ? 0 : std::numeric_limits<double>::infinity();
}

double combined_error(double base, std::span<const double> others, std::span<const double> mic_to_base) {
  double sum = base * base;
  for (size_t k = 0; k < others.size(); ++k) {
    const double independent = (1 - mic_to_base[k]) * others[k];
    sum += independent * independent;
  }
  return std::sqrt(sum);
}

ExtrapolationErrors ExtrapolationErrors::learn(const Samples& samples, const Estimator& model,
                                               const FitSettings& fit, const ErrorSettings& settings,
                                               const ErrorSizes& inside) {
  ExtrapolationErrors out;
  out.settings_ = settings;
  out.inside_ = inside.mean;
  const size_t features = samples.features();
  out.above_.resize(features);
  out.below_.resize(features);
  for (size_t f = 0; f < features; ++f) {
    out.ranges_.push_back(Range::of(samples.inputs[f]));
    if (out.ranges_[f].deviation == 0) continue;
    const auto similar = alike(samples, f);
    Samples used =
        similar.size() >= settings.least_similar ? samples.select(similar) : projected(samples, f, model);
    used = thinned(used, settings.extrapolation_samples, fit.seed);
    out.above_[f] = {errors_beyond(used, f, false, model, fit, settings), settings.shape, inside.ratio()};
    if (settings.both_tails)
      out.below_[f] = {errors_beyond(used, f, true, model, fit, settings), settings.shape, inside.ratio()};
  }
  // The error components of inputs that move together are not counted twice.
  const Samples some = thinned(samples, kMicSamples, fit.seed);
  std::vector<std::vector<double>> components(features);
  for (size_t f = 0; f < features; ++f)
    for (double value : some.inputs[f])
      components[f].push_back(
          out.above_[f].at(out.ranges_[f].deviation > 0 ? out.ranges_[f].distance(value) : 0));
  out.mic_.assign(features, std::vector<double>(features, 0));
  for (size_t a = 0; a < features; ++a)
    for (size_t b = a + 1; b < features; ++b)
      out.mic_[a][b] = out.mic_[b][a] = mic(components[a], components[b]);
  return out;
}

double ExtrapolationErrors::error_along(size_t input, double value) const {
  const Range& range = ranges_[input];
  const bool below = value < range.mean && settings_.both_tails && !below_[input].empty();
  const double error = (below ? below_ : above_)[input].at(range.distance(value));
  if (!settings_.range_counts) return error;
  // What extrapolation adds to the error that there is inside.
  return std::sqrt(std::max(0.0, error * error - inside_ * inside_));
}

ExtrapolationErrors::At ExtrapolationErrors::at(std::span<const double> inputs) const {
  At out;
  std::vector<double> errors(inputs.size(), 0);
  for (size_t f = 0; f < inputs.size(); ++f) {
    const bool inside = inputs[f] >= ranges_[f].low && inputs[f] <= ranges_[f].high;
    const double distance = ranges_[f].distance(inputs[f]);
    if (!std::isfinite(distance)) {
      out.known = false;
      continue;
    }
    if (!inside) out.beyond.push_back({.input = f, .distance = distance});
    if (!inside || !settings_.range_counts) errors[f] = error_along(f, inputs[f]);
  }
  if (errors.empty()) {
    out.error = inside_;
    return out;
  }
  // The largest is the base: the result does not depend on the order of the inputs, and errs on the side of silence.
  const auto base = static_cast<size_t>(std::max_element(errors.begin(), errors.end()) - errors.begin());
  std::vector<double> others, mic_to_base;
  for (size_t f = 0; f < errors.size(); ++f) {
    if (f == base) continue;
    others.push_back(errors[f]);
    mic_to_base.push_back(mic_[base][f]);
  }
  out.error = combined_error(errors[base], others, mic_to_base);
  if (settings_.range_counts) out.error = std::hypot(out.error, inside_);
  return out;
}

}  // namespace kintsugi::behaviour

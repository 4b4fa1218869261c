#include "monitoring/behaviour/module_fit.h"

#include <algorithm>
#include <cmath>

#include "common/base/statistics.h"

namespace kintsugi::behaviour {
namespace {

/// Servers that differ from the others by less than this factor (log2) share one model as they are.
constexpr double kSameSpeed = 0.05;

/// How much slower each server is than what is common to all, before what is common is learnt.
std::vector<double> factors_of_servers(const FitJob& job, const Samples& samples) {
  const Estimator common = Estimator::fit(samples, job.learning.fit);
  std::vector<std::vector<double>> ratios(job.servers.size());
  for (size_t i = 0; i < samples.size(); ++i)
    ratios[job.server_of[i]].push_back(log_ratio(samples.observed[i], common.predict(samples.row(i))));
  std::vector<double> factors(job.servers.size(), 1);
  for (size_t s = 0; s < ratios.size(); ++s)
    if (const double median = median_of(ratios[s]); std::abs(median) > kSameSpeed)
      factors[s] = std::exp2(median);
  return factors;
}

}  // namespace

double log_ratio(double actual, double predicted) {
  return actual > 0 && predicted > 0 ? std::log2(actual / predicted) : 0;
}

Fitted fit(const FitJob& job) {
  Fitted out{.module = job.module};
  out.features = select_features(job.about.inputs, job.inputs, job.observed, job.features);
  for (size_t o = 0; o < job.observed.size(); ++o) {
    auto& observation = out.observations.emplace_back();
    const auto& lacking = out.features.needs_more_inputs;
    if (out.features.kept.empty() || std::find(lacking.begin(), lacking.end(), o) != lacking.end()) continue;
    Samples samples;
    for (size_t f : out.features.kept)
      samples.inputs.push_back(job.inputs[f]);
    samples.observed = job.observed[o];
    if (!all_positive(samples)) {
      observation.model = ObservationModel::learn(samples, job.learning);
      continue;
    }
    const std::vector<double> factors = factors_of_servers(job, samples);
    for (size_t i = 0; i < samples.size(); ++i)
      samples.observed[i] /= factors[job.server_of[i]];
    observation.model = ObservationModel::learn(samples, job.learning);
    for (size_t s = 0; s < factors.size(); ++s)
      observation.factors[job.servers[s]] = factors[s];
    std::vector<double> residuals;
    for (size_t i = 0; i < samples.size(); ++i)
      residuals.push_back(
          log_ratio(samples.observed[i], observation.model->estimator().predict(samples.row(i))));
    observation.deviation = robust_deviation_of(residuals);
  }
  return out;
}

}  // namespace kintsugi::behaviour

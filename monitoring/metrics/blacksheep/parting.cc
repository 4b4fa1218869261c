#include "monitoring/metrics/blacksheep/parting.h"

#include <algorithm>

#include "common/base/statistics.h"

namespace kintsugi::blacksheep {

namespace {

/// Unmatched changes of one culprit: their weights, by instant.
using Weights = std::vector<double>;

double weight_of(const Pair& pair) {
  return std::max(0.0, pair.training.normalised());
}

/// A pair's changes are known only `window` instants later and earlier than the ends of the run, where change_points()
/// finds none: the other series' changes there are no partings.
bool both_look_at(const Pair& pair, size_t at, size_t instants, double tolerance) {
  const auto margin =
      static_cast<double>(std::max(pair.metric_changes.window, pair.state_changes.window)) + tolerance;
  return static_cast<double>(at) >= margin &&
         static_cast<double>(at) + margin <= static_cast<double>(instants);
}

std::map<Culprit, Weights> weights_of(const Profile& profile, const Run& run) {
  std::map<Culprit, Weights> out;
  const double sigma = profile.options.sigma(run.period);
  for (const Pair& pair : profile.pairs) {
    const auto changes = changes_of(pair, run);
    if (!changes) continue;
    const Matching matching = match(changes->metric, changes->state, sigma);
    const auto add = [&](Culprit culprit, const std::vector<size_t>& ats, const std::vector<size_t>& alone) {
      Weights& weights = out[std::move(culprit)];
      weights.resize(run.instants());
      for (const size_t i : alone) {
        if (both_look_at(pair, ats[i], run.instants(), 2 * sigma)) weights[ats[i]] += weight_of(pair);
      }
    };
    add({Direction::kMetricAlone, pair.metric}, changes->metric, matching.metric_alone);
    add({Direction::kStateAlone, pair.state}, changes->state, matching.state_alone);
  }
  return out;
}

/// The sum of the weights in the window that ends with each instant.
std::vector<double> window_sums(const Weights& weights, size_t window) {
  std::vector<double> out(weights.size());
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    sum += weights[i];
    if (i >= window) sum -= weights[i - window];
    out[i] = std::max(0.0, sum);
  }
  return out;
}

size_t window_of(const PartingOptions& options, const Run& run) {
  return std::max<size_t>(1, static_cast<size_t>(options.window / run.period));
}

/// The best of the pairs of the culprit.
const Pair& pair_of(const Profile& profile, const Culprit& culprit) {
  const Pair* best = nullptr;
  for (const Pair& pair : profile.pairs) {
    const std::string& name = culprit.direction == Direction::kStateAlone ? pair.state : pair.metric;
    if (name == culprit.name && (best == nullptr || weight_of(pair) > weight_of(*best))) best = &pair;
  }
  return *best;
}

}  // namespace

Answer<HealthyCounts> count_healthy(const Profile& profile, std::span<const Run> runs,
                                    const PartingOptions& options) {
  if (runs.empty()) return NotEnough{Lack::kHealthyReference, 0, 1};
  if (profile.pairs.empty()) return NotEnough{Lack::kStateChanges, 0, 1};
  std::map<Culprit, std::vector<double>> counts;
  for (const Run& run : runs) {
    for (const auto& [culprit, weights] : weights_of(profile, run)) {
      const auto sums = window_sums(weights, window_of(options, run));
      counts[culprit].insert(counts[culprit].end(), sums.begin(), sums.end());
    }
  }
  HealthyCounts out{.options = options, .runs = runs.size()};
  for (const auto& [culprit, values] : counts)
    out.highest[culprit] = quantile_of(values, options.healthy_quantile);
  return out;
}

std::vector<Parting> partings(const Profile& profile, const HealthyCounts& healthy, const Run& run) {
  std::vector<Parting> out;
  for (const auto& [culprit, weights] : weights_of(profile, run)) {
    const auto reference = healthy.highest.find(culprit);
    if (reference == healthy.highest.end()) continue;
    const size_t window = window_of(healthy.options, run);
    const auto sums = window_sums(weights, window);
    const auto highest = std::ranges::max_element(sums);
    // Sums that differ by rounding are the same.
    if (highest == sums.end() || *highest <= reference->second + 1e-9) continue;
    const auto at = static_cast<size_t>(highest - sums.begin());
    const Pair& pair = pair_of(profile, culprit);
    out.push_back({.begin_ns = run.t_ns[at - std::min(at, window - 1)],
                   .end_ns = run.t_ns[at],
                   .culprit = culprit,
                   .resource = resource_of(pair.metric),
                   .state = pair.state,
                   .count = *highest,
                   .healthy_count = reference->second});
  }
  std::ranges::stable_sort(out, std::greater(),
                           [](const Parting& parting) { return parting.count - parting.healthy_count; });
  return out;
}

}  // namespace kintsugi::blacksheep

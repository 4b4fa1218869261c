#include "monitoring/metrics/blacksheep/corroboration.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace kintsugi::blacksheep {

Corroboration& Corroboration::operator+=(const Corroboration& other) {
  true_positives += other.true_positives;
  matches += other.matches;
  false_positives += other.false_positives;
  false_negatives += other.false_negatives;
  instants += other.instants;
  return *this;
}

Matching match(std::span<const size_t> metric, std::span<const size_t> state, double sigma) {
  struct Candidate {
    double apart;
    size_t metric, state;
  };
  std::vector<Candidate> candidates;
  const double farthest = 2 * sigma;
  size_t first = 0;
  for (size_t m = 0; m < metric.size(); ++m) {
    const auto at = static_cast<double>(metric[m]);
    while (first < state.size() && static_cast<double>(state[first]) < at - farthest)
      ++first;
    for (size_t s = first; s < state.size() && static_cast<double>(state[s]) <= at + farthest; ++s)
      candidates.push_back({std::abs(at - static_cast<double>(state[s])), m, s});
  }
  std::ranges::sort(candidates, {},
                    [](const Candidate& c) { return std::tuple(c.apart, c.metric, c.state); });
  Matching out;
  std::vector<bool> metric_used(metric.size()), state_used(state.size());
  for (const Candidate& candidate : candidates) {
    if (metric_used[candidate.metric] || state_used[candidate.state]) continue;
    metric_used[candidate.metric] = state_used[candidate.state] = true;
    const double deviations = candidate.apart / sigma;
    out.matches.push_back({candidate.metric, candidate.state, std::exp(-deviations * deviations / 2)});
  }
  for (size_t m = 0; m < metric.size(); ++m) {
    if (!metric_used[m]) out.metric_alone.push_back(m);
  }
  for (size_t s = 0; s < state.size(); ++s) {
    if (!state_used[s]) out.state_alone.push_back(s);
  }
  return out;
}

Corroboration corroborate(std::span<const size_t> metric, std::span<const size_t> state, size_t instants,
                          double sigma) {
  const Matching matching = match(metric, state, sigma);
  Corroboration out{.matches = matching.matches.size(),
                    .false_positives = matching.metric_alone.size(),
                    .false_negatives = matching.state_alone.size(),
                    .instants = instants};
  for (const Match& pair : matching.matches)
    out.true_positives += pair.weight;
  return out;
}

}  // namespace kintsugi::blacksheep

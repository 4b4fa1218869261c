#include "tests/texts/phases.h"

#include <algorithm>
#include <cmath>

#include "common/base/statistics.h"

namespace kintsugi::similarity {
namespace {

constexpr double kTrimmed = 0.01;
constexpr size_t kStays = 3;

double log_density(const Normal& of, double value) {
  const double deviation = std::max(of.deviation, 1e-9), away = (value - of.mean) / deviation;
  return -away * away / 2 - std::log(deviation);
}

}  // namespace

std::vector<double> deviation_scores(const Distances& windows) {
  std::vector<double> out(windows.size(), 0);
  for (size_t i = 0; i < windows.size(); ++i)
    for (size_t j = 0; j < windows.size(); ++j)
      out[i] += windows(i, j) * windows(i, j);
  return out;
}

size_t most_different_neighbour(const Distances& windows) {
  size_t best = 0;
  double largest = -1;
  for (size_t i = 1; i < windows.size(); ++i)
    if (windows(i - 1, i) > largest) {
      largest = windows(i - 1, i);
      best = i;
    }
  return best;
}

TwoGroups two_means(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  double sum = 0, squares = 0;
  for (double value : sorted) {
    sum += value;
    squares += value * value;
  }
  TwoGroups best{.boundary = sorted.back(), .low = mean_of(sorted), .high = mean_of(sorted)};
  const auto n = static_cast<double>(sorted.size());
  double least = squares - sum * sum / n, low = 0;
  for (size_t cut = 1; cut < sorted.size(); ++cut) {  // the best split of numbers on a line is a cut
    low += sorted[cut - 1];
    const auto below = static_cast<double>(cut);
    const double left = squares - low * low / below - (sum - low) * (sum - low) / (n - below);
    if (left >= least || sorted[cut] == sorted[cut - 1]) continue;
    least = left;
    best = {.boundary = (sorted[cut - 1] + sorted[cut]) / 2,
            .low = low / below,
            .high = (sum - low) / (n - below)};
  }
  return best;
}

size_t first_high(std::span<const double> scores) {
  const double boundary = two_means(scores).boundary;
  for (size_t i = 0; i < scores.size(); ++i)
    if (scores[i] > boundary) return i;
  return 0;
}

size_t first_low(std::span<const double> values) {
  const double boundary = two_means(values).boundary;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] <= boundary) return i;
  return 0;
}

FaultyWindow faulty_window(std::span<const double> scores) {
  const double boundary = two_means(scores).boundary;
  size_t stays = 0;
  while (stays < scores.size() && scores[scores.size() - 1 - stays] > boundary)
    ++stays;
  if (stays >= kStays) return {.window = scores.size() - stays, .permanent = true};
  return {.window = static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin()),
          .permanent = false};
}

size_t faulty_group(std::span<const size_t> group_of, std::span<const double> difference_to_reference) {
  const size_t groups = *std::max_element(group_of.begin(), group_of.end()) + 1;
  std::vector<double> sum(groups, 0), size(groups, 0);
  for (size_t i = 0; i < group_of.size(); ++i) {
    sum[group_of[i]] += difference_to_reference[i] * difference_to_reference[i];
    size[group_of[i]] += 1;
  }
  size_t best = 0;
  for (size_t g = 1; g < groups; ++g)
    if (size[g] > 0 && sum[g] / size[g] > sum[best] / std::max(size[best], 1.0)) best = g;
  return best;
}

std::map<Transition, Normal> usual_times(std::span<const Observed> samples) {
  std::map<Transition, std::vector<double>> times;
  for (const Observed& sample : samples)
    times[sample.transition].push_back(sample.time);
  std::map<Transition, Normal> out;
  for (auto& [transition, of] : times) {
    std::sort(of.begin(), of.end());
    const auto trimmed = static_cast<size_t>(kTrimmed * static_cast<double>(of.size()));
    const std::span<const double> kept(of.data() + trimmed, of.size() - 2 * trimmed);
    out[transition] = {.mean = mean_of(kept), .deviation = deviation_of(kept)};
  }
  return out;
}

std::optional<Observed> improbable_transition(const std::map<Transition, Normal>& usual,
                                              std::span<const Observed> window) {
  std::vector<Observed> known;
  for (const Observed& observed : window)
    if (usual.contains(observed.transition)) known.push_back(observed);
  if (known.empty()) return std::nullopt;
  std::stable_sort(known.begin(), known.end(),
                   [](const Observed& a, const Observed& b) { return a.moment < b.moment; });
  std::vector<double> chances;
  for (const Observed& observed : known)
    chances.push_back(log_density(usual.at(observed.transition), observed.time));
  return known[first_low(chances)];
}

bool better_by_text(const Rise& a, const Rise& b) {
  if (a.moment <= b.moment) return a.theta * (1 + b.moment - a.moment) > b.theta;
  return a.theta > b.theta * (1 + a.moment - b.moment);
}

size_t first_large_rise(std::span<const Rise> rises, double window) {
  const auto value = [&](const Rise& rise) {
    return std::log(std::max(rise.theta, 1e-300)) - rise.moment / window;
  };
  size_t best = 0;
  for (size_t i = 1; i < rises.size(); ++i)
    if (value(rises[i]) > value(rises[best])) best = i;
  return best;
}

}  // namespace kintsugi::similarity

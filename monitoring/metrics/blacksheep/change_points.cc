#include "monitoring/metrics/blacksheep/change_points.h"

#include <algorithm>
#include <cmath>

#include "common/base/statistics.h"

namespace kintsugi::blacksheep {

namespace {

struct Means {
  double left, right;
  double difference() const { return std::abs(right - left); }
};

/// The means of the window that ends before `at` and of the one that begins with it. REQUIRES: both lie in `values`.
Means means_at(std::span<const double> values, size_t at, size_t window) {
  return {mean_of(values.subspan(at - window, window)), mean_of(values.subspan(at, window))};
}

/// The deviation that the difference of two means has by chance, from the steps between neighbouring values.
double by_steps(std::span<const double> healthy, size_t window) {
  double sum = 0, count = 0;
  for (size_t i = 1; i < healthy.size(); ++i)
    if (const double step = healthy[i] - healthy[i - 1]; std::isfinite(step)) {
      sum += step * step;
      count += 1;
    }
  return count == 0 ? 0 : std::sqrt(sum / count / static_cast<double>(window));
}

}  // namespace

std::vector<Change> change_points(std::span<const double> values, const ChangeOptions& options) {
  const size_t window = options.window;
  std::vector<Change> out;
  if (values.size() < 2 * window) return out;
  std::vector<double> strengths(values.size(), 0.0);
  std::vector<Means> means(values.size(), Means{0, 0});
  for (size_t i = window; i + window <= values.size(); ++i) {
    means[i] = means_at(values, i, window);
    const double strength =
        means[i].difference() / std::max(std::min(means[i].left, means[i].right), options.floor);
    if (std::isfinite(strength) && means[i].difference() > options.noise) strengths[i] = strength;
  }
  for (size_t i = window; i + window <= values.size(); ++i) {
    if (!(strengths[i] > options.threshold)) continue;
    const size_t first = i - (window - 1), last = std::min(i + window - 1, values.size() - 1);
    const auto highest = std::max_element(strengths.begin() + static_cast<ptrdiff_t>(first),
                                          strengths.begin() + static_cast<ptrdiff_t>(last) + 1);
    if (strengths[i] < *highest || (!out.empty() && i - out.back().at < window)) continue;
    out.push_back({i, strengths[i], means[i].right > means[i].left});
  }
  return out;
}

double floor_of(std::span<const double> healthy) {
  std::vector<double> known;
  std::ranges::copy_if(healthy, std::back_inserter(known), [](double value) { return std::isfinite(value); });
  const double floor = 0.01 * quantile_of(known, 0.99);
  return floor > 0 ? floor : 1;
}

double noise_of(std::span<const double> healthy, size_t window) {
  std::vector<double> differences;
  for (size_t i = window; i + window <= healthy.size(); ++i) {
    const Means means = means_at(healthy, i, window);
    if (std::isfinite(means.left) && std::isfinite(means.right)) differences.push_back(means.difference());
  }
  const double median = median_of(differences);
  for (double& difference : differences)
    difference = std::abs(difference - median);
  return std::min(4 * median_of(differences), by_steps(healthy, window));
}

}  // namespace kintsugi::blacksheep

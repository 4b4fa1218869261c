#include "monitoring/metrics/trace/exhaustion.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/statistics.h"

namespace kintsugi::metric_trace {

Result<Trend> trend_of(std::span<const double> times, std::span<const double> values) {
  std::vector<double> at, value;
  const size_t block = (values.size() + kMostPoints - 1) / kMostPoints;
  for (size_t begin = 0; begin < values.size(); begin += block) {
    double time = 0, sum = 0, known = 0;
    for (size_t i = begin; i < std::min(begin + block, values.size()); ++i) {
      if (!std::isfinite(values[i])) continue;
      time += times[i];
      sum += values[i];
      ++known;
    }
    if (known == 0) continue;
    at.push_back(time / known);
    value.push_back(sum / known);
  }
  if (at.size() < kFewestPoints)
    return Status(Code::kNotFound,
                  "not enough data because a trend needs " + std::to_string(kFewestPoints) + " values");
  std::vector<double> slopes;
  for (size_t i = 0; i < at.size(); ++i)
    for (size_t j = i + 1; j < at.size(); ++j)
      if (at[j] > at[i]) slopes.push_back((value[j] - value[i]) / (at[j] - at[i]));
  if (slopes.empty()) return Status(Code::kNotFound, "not enough data because all values are of one time");
  std::ranges::sort(slopes);
  // Sen 1968: the interval has the ranks that Kendall's statistic leaves between its quantiles.
  const double n = static_cast<double>(at.size()), pairs = static_cast<double>(slopes.size());
  const double reach = 1.96 * std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  Trend out{.rate = quantile_of_sorted(slopes, 0.5),
            .low = quantile_of_sorted(slopes, std::clamp((1 - reach / pairs) / 2, 0.0, 1.0)),
            .high = quantile_of_sorted(slopes, std::clamp((1 + reach / pairs) / 2, 0.0, 1.0))};
  std::vector<double> levels;
  for (size_t i = 0; i < at.size(); ++i)
    levels.push_back(value[i] + out.rate * (at.back() - at[i]));
  out.level = median_of(levels);
  return out;
}

std::vector<double> without_load(std::span<const double> values, std::span<const double> load, double slope) {
  std::vector<double> known;
  for (const double each : load)
    if (std::isfinite(each)) known.push_back(each);
  const double mean = mean_of(known);
  std::vector<double> out(values.begin(), values.end());
  for (size_t i = 0; i < out.size(); ++i)
    if (std::isfinite(load[i])) out[i] -= slope * (load[i] - mean);
  return out;
}

std::optional<Exhaustion> exhaustion(const Trend& trend, double limit, double horizon_s) {
  if (!trend.certain() || !std::isfinite(limit)) return {};
  const double left = limit - trend.level;
  if (left == 0 || (left > 0) != (trend.rate > 0) || trend.rate == 0) return {};
  Exhaustion out{.rate = trend.rate, .seconds_left = left / trend.rate, .soonest = 0, .latest = 0};
  if (out.seconds_left > horizon_s) return {};
  const double fastest = left > 0 ? trend.high : trend.low;
  const double slowest = left > 0 ? trend.low : trend.high;
  out.soonest = left / fastest;
  out.latest = (left > 0) == (slowest > 0) ? left / slowest : std::numeric_limits<double>::infinity();
  return out;
}

}  // namespace kintsugi::metric_trace

#include "monitoring/metrics/orion/shifts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "common/base/statistics.h"
#include "monitoring/metrics/orion/rarity.h"
#include "monitoring/metrics/trace/exhaustion.h"
#include "monitoring/metrics/trace/windows.h"

namespace kintsugi::orion {

using metric_trace::Series;

namespace {

/// A variance that was learnt from few values, and how many are free to differ.
struct Variance {
  double value = 0, degrees = 1;
};

struct WindowShift {
  double size = 0, rarity = 0;
  size_t window = 0;
};

/// The mean of a column in a window; NaN: most of its rows are not known.
double mean_in(const Series& series, size_t column, size_t begin, size_t size) {
  double sum = 0;
  size_t known = 0;
  for (size_t row = begin; row < begin + size; ++row)
    if (const double value = series.values(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(column));
        std::isfinite(value)) {
      sum += value;
      ++known;
    }
  return 2 * known < size ? metric_trace::kMissing : sum / static_cast<double>(known);
}

Variance healthy_variance(const MetricShifts& metric) {
  return {.value = metric.deviation * metric.deviation, .degrees = std::max(metric.independent - 1, 1.0)};
}

/// One that rules the others brings its own degrees of freedom and no more (Welch 1947).
Variance sum_of(const std::vector<Variance>& variances) {
  double sum = 0, squares = 0;
  for (const Variance& each : variances) {
    sum += each.value;
    squares += each.value * each.value / each.degrees;
  }
  return {.value = sum, .degrees = squares > 0 ? sum * sum / squares : 1};
}

/// Returns how far the metric had moved in the window nearest to that time; none: no window is near.
std::optional<double> moved_at(const Shifts& shifts, const MetricShifts& metric, int64_t t_ns) {
  std::optional<double> out;
  int64_t nearest_ns = shifts.window_ns;
  for (size_t i = 0; i < shifts.middles_ns.size(); ++i) {
    const int64_t apart_ns = std::abs(shifts.middles_ns[i] - t_ns);
    if (apart_ns > nearest_ns || !std::isfinite(metric.moved[i])) continue;
    nearest_ns = apart_ns;
    out = metric.moved[i];
  }
  return out;
}

/// Returns the limit towards which a column goes in the last life of its process, as MetricShifts::goes_to has it.
double limit_ahead(const Series& now, size_t column) {
  const double limit = now.limits[column];
  if (!std::isfinite(limit) || now.segments.empty()) return metric_trace::kMissing;
  const metric_trace::Segment& life = now.segments.back();
  std::vector<double> times, values;
  for (size_t row = life.begin; row < life.end; ++row) {
    times.push_back(static_cast<double>(now.t_ns[row] - now.t_ns[life.begin]) * 1e-9);
    values.push_back(now.values(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(column)));
  }
  const auto trend = metric_trace::trend_of(times, values);
  return trend && metric_trace::exhaustion(*trend, limit, kEndsWithinSeconds) ? limit
                                                                              : metric_trace::kMissing;
}

}  // namespace

const MetricShifts* Shifts::find(const std::string& name) const {
  const auto found = std::ranges::find(metrics, name, &MetricShifts::name);
  return found == metrics.end() ? nullptr : &*found;
}

std::string common_name(const std::string& metric, const std::string& source) {
  const size_t at = source.empty() ? std::string::npos : metric.find(source);
  return at == std::string::npos ? metric : std::string(metric).replace(at, source.size(), "*");
}

Shifts shifts_of(const Series& healthy, const Series& now, const metric_trace::Preparation& preparation) {
  const size_t size = std::clamp(now.rows() / 4, kFewestShiftRows, kShiftRows);
  const auto before = metric_trace::window_begins(healthy.segments, size, size / 2);
  const auto begins = metric_trace::window_begins(now.segments, size, size / 2);
  Shifts out{.metrics = {}, .middles_ns = {}, .window_ns = now.period.count() * static_cast<int64_t>(size)};
  for (const size_t begin : begins)
    out.middles_ns.push_back(now.t_ns[begin + size / 2]);
  for (const metric_trace::Live& live : preparation.live) {
    std::vector<size_t> columns = live.aliases;
    columns.push_back(live.column);
    for (const size_t column : columns) {
      std::vector<double> means;
      for (const size_t begin : before)
        if (const double mean = mean_in(healthy, column, begin, size); std::isfinite(mean))
          means.push_back(mean);
      if (means.size() < 2) continue;
      const double mean = mean_of(means);
      MetricShifts metric{.name = common_name(healthy.names[column], healthy.source),
                          .mean = mean,
                          .deviation = std::max(deviation_of(means), 1e-3 * std::abs(mean) + 1e-12),
                          .independent = independent_of(means.size(), resemblance_of(means)),
                          .moved = {},
                          .goes_to = limit_ahead(now, column)};
      for (const size_t begin : begins)
        metric.moved.push_back(mean_in(now, column, begin, size) - mean);
      out.metrics.push_back(std::move(metric));
    }
  }
  return out;
}

Shift shift_of(const Shifts& own, const MetricShifts& metric, const std::vector<const Shifts*>& peers) {
  std::vector<std::pair<const Shifts*, const MetricShifts*>> same;
  std::vector<Variance> variances{healthy_variance(metric)};
  for (const Shifts* peer : peers)
    if (const MetricShifts* found = peer->find(metric.name)) {
      same.emplace_back(peer, found);
      variances.push_back(healthy_variance(*found));
    }
  if (same.size() < kFewestPeers) variances.resize(1);
  Variance usual = sum_of(variances);
  usual.value = std::max(usual.value / static_cast<double>(variances.size()), variances.front().value);
  std::vector<WindowShift> windows;
  for (size_t window = 0; window < own.middles_ns.size(); ++window) {
    double moved = metric.moved[window];
    if (!std::isfinite(moved)) continue;
    std::vector<double> of_peers;
    for (const auto& [peer, found] : same)
      if (const auto theirs = moved_at(*peer, *found, own.middles_ns[window])) of_peers.push_back(*theirs);
    Variance variance = usual;
    if (of_peers.size() >= kFewestPeers) {
      const double median = median_of(of_peers);
      moved -= median;
      double apart = 0;
      for (const double theirs : of_peers)
        apart += (theirs - median) * (theirs - median) / static_cast<double>(of_peers.size());
      if (apart > usual.value)
        variance = sum_of(
            {usual, {.value = apart - usual.value, .degrees = static_cast<double>(of_peers.size() - 1)}});
    }
    const double size = std::abs(moved) / std::sqrt(variance.value);
    windows.push_back({.size = size, .rarity = as_normal(size, variance.degrees), .window = window});
  }
  std::ranges::stable_sort(windows, std::greater(), &WindowShift::size);
  windows.resize(std::min(windows.size(), kShiftedWindows));
  Shift out;
  for (const WindowShift& each : windows) {
    const auto share = 1 / static_cast<double>(windows.size());
    out.size += share * each.size;
    out.rarity += share * each.rarity;
    out.moved += share * metric.moved[each.window];
    out.window = windows.front().window;
  }
  return out;
}

}  // namespace kintsugi::orion

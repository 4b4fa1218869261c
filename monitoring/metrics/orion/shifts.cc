#include "monitoring/metrics/orion/shifts.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/statistics.h"
#include "monitoring/metrics/trace/exhaustion.h"
#include "monitoring/metrics/trace/windows.h"

namespace kintsugi::orion {

using metric_trace::Series;

namespace {

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

size_t rows_of_shifts(const Series& now) {
  return std::clamp(now.rows() / 4, kFewestShiftRows, kShiftRows);
}

Shifts shifts_of(const Series& healthy, const Series& now, const metric_trace::Preparation& preparation,
                 size_t size) {
  const auto before = metric_trace::window_begins(healthy.segments, size, size / 2);
  const auto begins = metric_trace::window_begins(now.segments, size, size / 2);
  Shifts out{.metrics = {},
             .healthy_middles_ns = {},
             .middles_ns = {},
             .window_ns = now.period.count() * static_cast<int64_t>(size)};
  for (const size_t begin : before)
    out.healthy_middles_ns.push_back(healthy.t_ns[begin + size / 2]);
  for (const size_t begin : begins)
    out.middles_ns.push_back(now.t_ns[begin + size / 2]);
  for (const metric_trace::Live& live : preparation.live) {
    std::vector<size_t> columns = live.aliases;
    columns.push_back(live.column);
    for (const size_t column : columns) {
      std::vector<double> usual, means;
      for (const size_t begin : before) {
        usual.push_back(mean_in(healthy, column, begin, size));
        if (std::isfinite(usual.back())) means.push_back(usual.back());
      }
      if (means.size() < 2) continue;
      const double mean = mean_of(means);
      MetricShifts metric{.name = common_name(healthy.names[column], healthy.source),
                          .mean = mean,
                          .usual = std::move(usual),
                          .moved = {},
                          .goes_to = limit_ahead(now, column)};
      for (double& value : metric.usual)
        value -= mean;
      for (const size_t begin : begins)
        metric.moved.push_back(mean_in(now, column, begin, size) - mean);
      out.metrics.push_back(std::move(metric));
    }
  }
  return out;
}

}  // namespace kintsugi::orion

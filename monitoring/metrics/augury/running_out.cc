#include "monitoring/metrics/augury/running_out.h"

#include <algorithm>
#include <cmath>

#include "monitoring/metrics/orion/healthy_windows.h"

namespace kintsugi::augury {

using metric_trace::Exhaustion;
using metric_trace::Series;
using metric_trace::Trend;

namespace {

/// Rows, as series that trend_of() takes.
struct Stretch {
  std::vector<double> times, load;
  Eigen::Index begin = 0, rows = 0;
};

Stretch stretch_of(const Series& series, const Eigen::VectorXd& load, double seconds) {
  Stretch out;
  const int64_t from = series.t_ns.back() - static_cast<int64_t>(seconds * 1e9);
  for (size_t row = series.segments.back().begin; row < series.segments.back().end; ++row) {
    if (series.t_ns[row] < from) continue;
    if (out.rows++ == 0) out.begin = static_cast<Eigen::Index>(row);
    out.times.push_back(static_cast<double>(series.t_ns[row] - from) * 1e-9);
    out.load.push_back(load(static_cast<Eigen::Index>(row)));
  }
  return out;
}

/// What a metric grows by with one more of load: from the differences of neighbours, in which a leak hardly shows.
double slope_by_load(const std::vector<double>& values, const std::vector<double>& load) {
  double both = 0, squares = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const double more = load[i] - load[i - 1], grown = values[i] - values[i - 1];
    if (!std::isfinite(more + grown)) continue;
    both += more * grown;
    squares += more * more;
  }
  return squares > 1e-12 ? both / squares : 0;
}

Result<Trend> trend_in(const Stretch& stretch, const Series& series, size_t column) {
  const Eigen::VectorXd rows =
      series.values.col(static_cast<Eigen::Index>(column)).segment(stretch.begin, stretch.rows);
  const std::vector<double> values(rows.begin(), rows.end());
  return metric_trace::trend_of(
      stretch.times, metric_trace::without_load(values, stretch.load, slope_by_load(values, stretch.load)));
}

bool is_known_lately(const Series& series, size_t column) {
  constexpr Eigen::Index kLately = 30;
  const auto values = series.values.col(static_cast<Eigen::Index>(column));
  return values.tail(std::min(kLately, values.size())).array().isFinite().any();
}

}  // namespace

std::vector<RunsOut> running_out(const Series& series, double horizon_s, double scale) {
  std::vector<RunsOut> out;
  if (series.segments.empty() || series.t_ns.empty()) return out;
  const metric_trace::Segment& life = series.segments.back();
  const double row_s = std::chrono::duration<double>(series.period).count() * scale;
  const double seconds = kLongRows * row_s;
  if (life.rows() == 0 ||
      static_cast<double>(series.t_ns[life.end - 1] - series.t_ns[life.begin]) * 1e-9 < 0.9 * seconds)
    return out;
  std::vector<size_t> columns(series.names.size());
  for (size_t i = 0; i < columns.size(); ++i)
    columns[i] = i;
  const Eigen::VectorXd load = orion::Load(series, columns).of(series);
  const Stretch latest = stretch_of(series, load, kShortRows * row_s),
                longer = stretch_of(series, load, seconds);
  for (const size_t column : columns) {
    const double limit = series.limits[column];
    if (!std::isfinite(limit)) continue;
    // Nothing runs out of a process that is gone.
    if (!is_known_lately(series, column)) continue;
    const Result<Trend> soon = trend_in(latest, series, column), before = trend_in(longer, series, column);
    if (!soon || !before) continue;
    // At its end a resource has no trend any more.
    if (limit > 0 && soon->level >= kUsedUp * limit) {
      out.push_back({.metric = series.names[column],
                     .now = soon->level,
                     .limit = limit,
                     .exhaustion = {.rate = before->rate, .seconds_left = 0, .soonest = 0, .latest = 0}});
      continue;
    }
    // Both tell that there is a trend, and the latest rows when it ends.
    const std::optional<Exhaustion> fast = metric_trace::exhaustion(*soon, limit, horizon_s);
    const std::optional<Exhaustion> slow = metric_trace::exhaustion(*before, limit, horizon_s);
    if (!fast || !slow || std::abs(before->rate) * seconds < kLeastGrowth * std::abs(limit)) continue;
    out.push_back({.metric = series.names[column], .now = soon->level, .limit = limit, .exhaustion = *fast});
  }
  std::ranges::stable_sort(out, {}, [](const RunsOut& each) { return each.exhaustion.seconds_left; });
  if (out.empty()) return out;
  // Executions explain the growth of the stretch that shows the trend; earlier rows do not count.
  const auto begin = static_cast<size_t>(longer.begin);
  const Series present = metric_trace::slice(series, begin, begin + static_cast<size_t>(longer.rows));
  const orion::Costs costs(present);
  for (RunsOut& each : out)
    each.grows_with =
        costs.dearer(static_cast<size_t>(std::ranges::find(series.names, each.metric) - series.names.begin()),
                     kNamedRegions);
  return out;
}

}  // namespace kintsugi::augury

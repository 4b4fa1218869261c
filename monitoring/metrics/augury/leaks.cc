#include "monitoring/metrics/augury/leaks.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>

#include "monitoring/metrics/augury/augury.h"
#include "monitoring/metrics/trace/preparation.h"
#include "monitoring/metrics/trace/windows.h"

namespace kintsugi::augury {

using metric_trace::Series;

namespace {

/// The rows of a window.
struct Window {
  const Series& series;
  const Eigen::VectorXd& load;
  Eigen::Index begin = 0;

  auto of(size_t column) const {
    return series.values.col(static_cast<Eigen::Index>(column)).segment(begin, kWindow);
  }
  auto loads() const { return load.segment(begin, kWindow); }
};

/// The mean of what is known; nothing: that is less than half. A page that is late leaves holes in the rows.
std::optional<double> mean_of_known(const Eigen::Ref<const Eigen::VectorXd>& values) {
  const auto known = values.array().isFinite();
  if (2 * known.count() < values.size()) return {};
  return known.select(values.array(), 0).sum() / static_cast<double>(known.count());
}

/// Nothing: it is hardly known.
std::optional<Usual> usual_of(const std::vector<Window>& windows, size_t column) {
  std::vector<std::pair<double, double>> points;  // load, mean
  double load = 0, mean = 0;
  for (const Window& window : windows) {
    const auto value = mean_of_known(window.of(column)), of_load = mean_of_known(window.loads());
    if (!value || !of_load) continue;
    points.emplace_back(*of_load, *value);
    load += points.back().first;
    mean += points.back().second;
  }
  if (points.size() < kFewestHealthyWindows) return {};
  load /= static_cast<double>(points.size());
  mean /= static_cast<double>(points.size());
  double both = 0, squares = 0;
  for (const auto& [x, y] : points) {
    both += (x - load) * (y - mean);
    squares += (x - load) * (x - load);
  }
  Usual out{.slope = squares > 1e-12 ? both / squares : 0, .low = INFINITY, .high = -INFINITY};
  for (const auto& [x, y] : points) {
    out.low = std::min(out.low, y - out.slope * x);
    out.high = std::max(out.high, y - out.slope * x);
  }
  return out;
}

/// The alarm that a window is; nothing: it is none.
std::optional<Leak> leak_in(const Window& window, size_t column, const Usual& usual) {
  const auto values = window.of(column);
  const auto value = mean_of_known(values), of_load = mean_of_known(window.loads());
  if (!value || !of_load) return {};
  const double limit = window.series.limits[column];
  const double mean = *value - usual.slope * *of_load;
  const bool grows = limit > usual.high;
  const double range = std::max(usual.high - usual.low, 1e-3 * std::abs(usual.high));
  const double beyond = (grows ? mean - usual.high : usual.low - mean) / (kBeyond * range);
  if (!(beyond > 1)) return {};
  std::vector<double> times, rows(values.begin(), values.end()), loads(kWindow);
  std::ranges::copy(window.loads(), loads.begin());
  const auto* const t_ns = window.series.t_ns.data() + window.begin;
  for (size_t i = 0; i < kWindow; ++i)
    times.push_back(static_cast<double>(t_ns[i] - t_ns[0]) * 1e-9);
  const auto trend = metric_trace::trend_of(times, metric_trace::without_load(rows, loads, usual.slope));
  const auto end = trend ? metric_trace::exhaustion(*trend, limit, kLeakHorizonSeconds) : std::nullopt;
  if (!end) return {};
  return Leak{.t_ns = t_ns[kWindow - 1],
              .metric = window.series.names[column],
              .usual = grows ? usual.high : usual.low,
              .now = mean,
              .limit = limit,
              .excess = beyond,
              .exhaustion = *end};
}

void find_leaks(const Series& now, const Eigen::VectorXd& load, size_t column, const Usual& usual,
                std::vector<Leak>& out) {
  for (const metric_trace::Segment& life : now.segments) {
    std::deque<bool> above;
    bool raised = false;
    for (size_t end = life.begin + kWindow; end <= life.end; ++end) {
      const auto leak = leak_in({now, load, static_cast<Eigen::Index>(end - kWindow)}, column, usual);
      above.push_back(leak.has_value());
      if (above.size() > kLastRows) above.pop_front();
      const bool alarm =
          leak && std::ranges::count(above, true) >= static_cast<std::ptrdiff_t>(kAlarmingRows);
      if (alarm && !raised) out.push_back(*leak);
      raised = alarm;
    }
  }
}

const Usual* usual_in(const HealthyTime& healthy, const std::string& metric) {
  const auto found = std::ranges::find(healthy.names, metric);
  if (found == healthy.names.end()) return nullptr;
  const auto& usual = healthy.usuals[static_cast<size_t>(found - healthy.names.begin())];
  return usual ? &*usual : nullptr;
}

}  // namespace

HealthyTime learn_usual(const Series& healthy) {
  HealthyTime out{.names = healthy.names, .usuals = {}, .load = {}};
  // A metric that stood still is no measure of load: its smallest move would explain everything.
  out.load = orion::Load(healthy, metric_trace::prepare(healthy).columns());
  const Eigen::VectorXd loads = out.load.of(healthy);
  std::vector<Window> windows;
  for (const size_t begin : metric_trace::window_begins(healthy.segments, kWindow, kWindow / 2))
    windows.push_back({healthy, loads, static_cast<Eigen::Index>(begin)});
  for (size_t column = 0; column < healthy.names.size(); ++column)
    out.usuals.push_back(usual_of(windows, column));
  out.windows = windows.size();
  return out;
}

Result<std::vector<Leak>> leaks_of(const HealthyTime& healthy, const Series& raw_now,
                                   std::span<const HealthyTime* const> peers) {
  if (healthy.windows < kFewestHealthyWindows)
    return Status(Code::kNotFound, "not enough data because the healthy trace has " +
                                       std::to_string(healthy.windows) + " windows of " +
                                       std::to_string(kWindow) + " rows, and " +
                                       std::to_string(kFewestHealthyWindows) + " are needed");
  const Series now = metric_trace::with_columns(raw_now, healthy.names);
  const Eigen::VectorXd load_now = healthy.load.of(now);
  std::vector<Leak> out;
  for (size_t column = 0; column < now.names.size(); ++column) {
    const Usual* const own = usual_in(healthy, now.names[column]);
    if (!std::isfinite(now.limits[column]) || own == nullptr) continue;
    Usual usual = *own;
    for (const HealthyTime* peer : peers)
      if (const Usual* const theirs = usual_in(*peer, now.names[column])) {
        usual.low = std::min(usual.low, theirs->low);
        usual.high = std::max(usual.high, theirs->high);
      }
    find_leaks(now, load_now, column, usual, out);
  }
  std::ranges::stable_sort(out, {}, &Leak::t_ns);
  return out;
}

}  // namespace kintsugi::augury

// What recorded metrics are taken for by the texts' forms and by the simple predictors that detectors are compared with.
//
//   metric_forms METHOD HEALTHY_TRACE TRACE [LOGS]    prints alarms or rankings as JSON; scripts/lab/metrics/judge.py judges them
//
// augury-text, augury-text-ahead: the nearest healthy window by scaled covariances (Laguna 2012, 7.4); polynomial: a forecast
// of 20 rows leaves μ ± 5σ of training (7.5.3); three-sigma: a value leaves μ ± 3σ. An alarm needs three of the last five
// rows, as ours does. mean-shift: metrics by how far their mean has moved, in healthy deviations. processor-band: the
// processor time of ten seconds leaves μ ± 3σ; metric-band: so does any metric that BlackSheep explains. metric-changes and
// state-changes: change points of one of these metrics, or of one state of the log, in 30 s are more than ever in the healthy time.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/base/statistics.h"
#include "monitoring/metrics/augury/augury.h"
#include "monitoring/metrics/blacksheep/change_points.h"
#include "monitoring/metrics/blacksheep/explanation.h"
#include "monitoring/metrics/trace/coarser.h"
#include "monitoring/metrics/trace/files.h"
#include "monitoring/metrics/trace/preparation.h"
#include "tests/texts/metrics/augury_as_printed.h"

namespace kintsugi::augury {
namespace {

using metric_trace::Series;
using Json = nlohmann::ordered_json;

constexpr int kMostOrder = 2;
constexpr double kEnough = 0.9;  // R² with which a polynomial is not made higher
constexpr size_t kForecast = 20;
constexpr std::chrono::seconds kProcessorTime{10};
constexpr std::chrono::seconds kChangesPeriod{1};
constexpr size_t kChangesRows = 30;  // in which changes are counted

/// What a detector says of the rows up to one; above 1: an alarm.
struct Judged {
  double excess = 0;
  std::string metric;
};
using Judge = std::function<Judged(size_t row)>;

/// Alarms begin where none was in the row before.
void add_alarms(Json& out, const Series& series, size_t rows, const Judge& judge) {
  for (const metric_trace::Segment& life : series.segments) {
    std::deque<bool> above;
    bool raised = false;
    for (size_t row = life.begin + rows - 1; row < life.end; ++row) {
      const Judged judged = judge(row);
      above.push_back(judged.excess > 1);
      if (above.size() > kLastRows) above.pop_front();
      const bool alarm =
          above.back() && std::ranges::count(above, true) >= static_cast<std::ptrdiff_t>(kAlarmingRows);
      if (alarm && !raised)
        out.push_back({{"server", series.source},
                       {"t_ns", series.t_ns[row]},
                       {"metric", judged.metric},
                       {"excess", judged.excess}});
      raised = alarm;
    }
  }
}

std::vector<double> known_of(const Series& series, size_t column) {
  std::vector<double> out;
  for (const double value : series.values.col(static_cast<Eigen::Index>(column)))
    if (std::isfinite(value)) out.push_back(value);
  return out;
}

void by_sphere(Json& out, const Series& healthy, const Series& now, bool ahead) {
  const std::vector<size_t> columns = metric_trace::prepare(healthy).columns();
  std::vector<ModelSet> models;
  for (size_t i = 0; ahead && i < columns.size(); ++i)
    models.push_back(ModelSet::learn(healthy, columns[i]));
  const auto sphere = Sphere::learn(healthy, columns, ahead ? &models : nullptr);
  if (!sphere) return;
  const Eigen::MatrixXd values = now.values(Eigen::all, columns);
  add_alarms(out, now, kWindow, [&](size_t row) -> Judged {
    const auto window = values.middleRows(static_cast<Eigen::Index>(row + 1 - kWindow), kWindow);
    if (!window.allFinite()) return {};
    return {.excess = sphere->distance(window) / sphere->threshold(), .metric = {}};
  });
}

void by_bands(Json& out, const Series& healthy, const Series& now, bool forecast) {
  const std::vector<size_t> columns = metric_trace::prepare(healthy).columns();
  std::vector<Band> bands;
  for (const size_t column : columns)
    bands.push_back(band_of(known_of(healthy, column)));
  const double times = forecast ? 5 : 3;
  add_alarms(out, now, forecast ? kWindow : 1, [&](size_t row) {
    Judged most;
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto column = now.values.col(static_cast<Eigen::Index>(columns[i]));
      std::vector<double> values{column(static_cast<Eigen::Index>(row))};
      if (forecast) {
        const Eigen::VectorXd window = column.segment(static_cast<Eigen::Index>(row + 1 - kWindow), kWindow);
        if (!window.allFinite()) continue;
        values = polynomial_forecast({window.data(), kWindow}, kEnough, kMostOrder, kForecast);
      }
      for (const double value : values) {
        if (!std::isfinite(value)) continue;
        const double excess = std::abs(value - bands[i].mean) / std::max(times * bands[i].deviation, 1e-12);
        if (excess > most.excess) most = {.excess = excess, .metric = now.names[columns[i]]};
      }
    }
    return most;
  });
}

void by_mean_shift(Json& out, const Series& healthy, const Series& now) {
  std::vector<std::pair<double, std::string>> order;
  for (const size_t column : metric_trace::prepare(healthy).columns()) {
    const std::vector<double> before = known_of(healthy, column), after = known_of(now, column);
    if (after.empty()) continue;
    order.emplace_back(std::abs(mean_of(after) - mean_of(before)) / std::max(deviation_of(before), 1e-12),
                       now.names[column]);
  }
  std::ranges::stable_sort(order, std::greater(), &std::pair<double, std::string>::first);
  Json metrics = Json::array();
  for (size_t i = 0; i < std::min<size_t>(order.size(), 3); ++i)
    metrics.push_back({{"name", order[i].second}, {"score", order[i].first}});
  if (!order.empty())
    out.push_back({{"server", now.source}, {"excess", order.front().first}, {"metrics", metrics}});
}

/// How far the mean of the last rows is from that of training, over three deviations of such means.
void by_mean_band(Json& out, const Series& healthy, const Series& now, const std::string& metric) {
  const auto column = std::ranges::find(healthy.names, metric) - healthy.names.begin();
  if (column == static_cast<std::ptrdiff_t>(healthy.names.size())) return;
  const auto rows = static_cast<Eigen::Index>(kProcessorTime / healthy.period);
  const auto mean_at = [&](const Series& series, Eigen::Index row) {
    return series.values.col(column).segment(row + 1 - rows, rows).mean();
  };
  std::vector<double> means;
  for (const size_t begin :
       metric_trace::window_begins(healthy.segments, static_cast<size_t>(rows), static_cast<size_t>(rows)))
    if (const double mean = mean_at(healthy, static_cast<Eigen::Index>(begin) + rows - 1);
        std::isfinite(mean))
      means.push_back(mean);
  const Band band = band_of(means);
  add_alarms(out, now, static_cast<size_t>(rows), [&](size_t row) -> Judged {
    const double off = std::abs(mean_at(now, static_cast<Eigen::Index>(row)) - band.mean);
    return {.excess = std::isfinite(off) ? off / std::max(3 * band.deviation, 1e-12) : 0, .metric = metric};
  });
}

/// The most changes in a window that ends at one instant, and that instant.
std::pair<size_t, size_t> most_changes(std::span<const double> values,
                                       const blacksheep::ChangeOptions& options) {
  std::pair<size_t, size_t> out{0, 0};
  const std::vector<blacksheep::Change> changes = blacksheep::change_points(values, options);
  for (size_t last = 0; last < changes.size(); ++last) {
    size_t first = last;
    while (first > 0 && changes[last].at - changes[first - 1].at < kChangesRows)
      --first;
    if (last - first + 1 > out.first) out = {last - first + 1, changes[last].at};
  }
  return out;
}

/// Changes of one series by itself, without the other side.
void add_changes(Json& out, const std::string& server, const std::string& name, const char* kind,
                 std::span<const double> before, std::span<const double> values,
                 const std::vector<int64_t>& t_ns) {
  blacksheep::ChangeOptions options;
  options.floor = blacksheep::floor_of(before);
  options.noise = blacksheep::noise_of(before, options.window);
  const size_t usual = std::max<size_t>(most_changes(before, options).first, 1);
  const auto [most, at] = most_changes(values, options);
  if (most > usual)
    out.push_back({{"server", server},
                   {"t_ns", t_ns[at]},
                   {kind, name},
                   {"excess", static_cast<double>(most) / static_cast<double>(usual)}});
}

std::vector<double> column_of(const Series& series, const std::string& metric) {
  const auto column = std::ranges::find(series.names, metric) - series.names.begin();
  const auto values = series.values.col(column);
  return {values.begin(), values.end()};
}

void by_metric_changes(Json& out, const Series& healthy, const Series& now) {
  const Series before = metric_trace::averaged_to(healthy, kChangesPeriod),
               after = metric_trace::averaged_to(now, kChangesPeriod);
  for (const std::string& metric : blacksheep::explained_metrics(before.names))
    add_changes(out, now.source, metric, "metric", column_of(before, metric), column_of(after, metric),
                after.t_ns);
}

/// The states in the time of the rows, one after the other.
std::vector<double> activity_in(const Series& series, const blacksheep::States& states, size_t state) {
  const Eigen::VectorXd activity = states.activity(state);
  std::vector<double> out;
  for (const int64_t t_ns : series.t_ns) {
    const int64_t at = (t_ns - states.begin_ns) / states.period.count();
    out.push_back(t_ns >= states.begin_ns && at < activity.size() ? activity[at] : 0);
  }
  return out;
}

void by_state_changes(Json& out, const Series& healthy, const Series& now, const std::string& logs) {
  const auto states = blacksheep::read_states(logs + "/" + now.source + ".activity.log", kChangesPeriod);
  if (!states) return;
  const Series before = metric_trace::averaged_to(healthy, kChangesPeriod),
               after = metric_trace::averaged_to(now, kChangesPeriod);
  for (size_t state = 0; state < states->names.size(); ++state)
    add_changes(out, now.source, states->names[state], "region", activity_in(before, *states, state),
                activity_in(after, *states, state), after.t_ns);
}

void judge(Json& out, const std::string& method, const Series& healthy, const Series& now,
           const std::string& logs) {
  if (method.starts_with("augury-text")) by_sphere(out, healthy, now, method == "augury-text-ahead");
  if (method == "polynomial" || method == "three-sigma") by_bands(out, healthy, now, method == "polynomial");
  if (method == "mean-shift") by_mean_shift(out, healthy, now);
  if (method == "processor-band") by_mean_band(out, healthy, now, "cpu_ns");
  if (method == "metric-band")
    for (const std::string& metric : blacksheep::explained_metrics(healthy.names))
      by_mean_band(out, healthy, now, metric);
  if (method == "metric-changes") by_metric_changes(out, healthy, now);
  if (method == "state-changes") by_state_changes(out, healthy, now, logs);
}

int run(const std::string& method, const std::string& healthy_name, const std::string& name,
        const std::string& logs) {
  const auto healthy = metric_trace::read_part(healthy_name), now = metric_trace::read_part(name);
  for (const auto* each : {&healthy, &now})
    if (!*each) {
      fmt::print(stderr, "metric_forms: {}\n", each->error().message());
      return 1;
    }
  Json out = Json::array();
  for (uint32_t i = 0; i < now->header.sources.size(); ++i) {
    const auto before = metric_trace::find_source(healthy->header, now->header.sources[i].name);
    if (!before) continue;
    const Series learnt = metric_trace::series_of(*healthy, *before);
    judge(out, method, learnt, metric_trace::with_columns(metric_trace::series_of(*now, i), learnt.names),
          logs);
  }
  fmt::print("{}\n", out.dump());
  return 0;
}

}  // namespace
}  // namespace kintsugi::augury

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) {
    std::fprintf(stderr, "usage: metric_forms METHOD HEALTHY_TRACE TRACE [LOGS]\n");
    return 2;
  }
  return kintsugi::augury::run(argv[1], argv[2], argv[3], argc == 5 ? argv[4] : "");
}

#include "monitoring/metrics/augury/augury.h"

#include <algorithm>
#include <cmath>

#include "common/base/statistics.h"

namespace kintsugi::augury {

using metric_trace::Series;
using orion::Deviations;
using orion::HealthyWindows;

namespace {

/// A day of rows, judged one by one: windows that overlap this much are hardly more than those that do not.
constexpr size_t kDayOfWindows = 86400 / kWindow;

/// A series of the rows of `values` alone, for HealthyWindows.
Series series_of(const Eigen::MatrixXd& values) {
  Series out;
  out.values = values;
  out.t_ns.assign(static_cast<size_t>(values.rows()), 0);
  return out;
}

/// A window of live metrics without its oldest rows, and with the forecast ones in their place.
Eigen::MatrixXd with_forecasts(const Eigen::MatrixXd& window, const std::vector<ModelSet>& models) {
  Eigen::MatrixXd out(window.rows(), window.cols());
  out.topRows(window.rows() - kAhead) = window.bottomRows(window.rows() - kAhead);
  out.bottomRows(kAhead) = window.bottomRows(1).replicate(kAhead, 1);
  for (size_t live = 0; live < models.size(); ++live) {
    const auto column = static_cast<Eigen::Index>(live);
    if (models[live].empty() || !window.col(column).allFinite()) continue;
    const Eigen::VectorXf values = window.col(column).cast<float>();
    out.col(column).tail(kAhead) = models[live].forecast(models[live].fitted(values), values).cast<double>();
  }
  return out;
}

}  // namespace

Result<Augury> Augury::learn(const Series& healthy, const Options& options) {
  Augury out;
  out.names_ = healthy.names;
  out.limits_ = healthy.limits;
  auto models = std::make_shared<std::vector<ModelSet>>();
  for (const size_t column : metric_trace::prepare(healthy).columns())
    models->push_back(ModelSet::learn(healthy, column));
  HealthyWindows::Rows rows;
  if (options.forecast_rows)
    rows = [models](const Eigen::MatrixXd& window) { return with_forecasts(window, *models); };
  Result<HealthyWindows> windows = HealthyWindows::learn(healthy, kWindow, std::move(rows));
  if (!windows) return windows.error();
  out.models_ = models;
  out.healthy_ = std::make_shared<const HealthyWindows>(std::move(*windows));
  for (size_t live = 0; live < models->size(); ++live)
    out.largest_errors_.push_back(out.threshold_of_errors(healthy, live));
  return out;
}

double Augury::threshold_of_errors(const Series& healthy, size_t live) const {
  const auto values = healthy.values.col(static_cast<Eigen::Index>(healthy_->columns()[live]));
  std::vector<double> errors;
  if (!(*models_)[live].empty())
    for (const size_t begin : metric_trace::window_begins(healthy.segments, kWindow, kAhead))
      if (const auto window = values.segment(static_cast<Eigen::Index>(begin), kWindow); window.allFinite())
        errors.push_back((*models_)[live].fitted(window.cast<float>()).error);
  // The models were made from these rows, and there are few of them: three times the largest error is not foreseen.
  return errors.empty() ? std::numeric_limits<double>::infinity() : 3 * std::ranges::max(errors);
}

void Augury::restart() {
  rows_.clear();
  times_.clear();
  above_.clear();
  silent_ = 0;
}

std::optional<Alarm> Augury::step(int64_t t_ns, const Eigen::Ref<const Eigen::RowVectorXd>& row) {
  silent_ = row.array().isFinite().any() ? 0 : silent_ + 1;
  rows_.emplace_back(row);
  times_.push_back(t_ns);
  if (rows_.size() > kWindow) {
    rows_.pop_front();
    times_.pop_front();
  }
  if (silent_ >= kSilentRows) return Alarm{.reason = Reason::kSilent, .t_ns = t_ns, .excess = 1};
  if (rows_.size() < kWindow) return {};
  const Judged judged = judge();
  above_.push_back(judged.excess > 1);
  if (above_.size() > kLastRows) above_.pop_front();
  if (judged.excess <= 1 || std::ranges::count(above_, true) < static_cast<std::ptrdiff_t>(kAlarmingRows))
    return {};
  return alarm_for(judged, t_ns);
}

Eigen::MatrixXd Augury::window() const {
  Eigen::MatrixXd out(static_cast<Eigen::Index>(rows_.size()), rows_.front().size());
  for (size_t i = 0; i < rows_.size(); ++i)
    out.row(static_cast<Eigen::Index>(i)) = rows_[i];
  return out;
}

Augury::Judged Augury::judge() const {
  const Series judged = series_of(window());
  const Deviations deviations = healthy_->deviations(judged, healthy_->load().of(judged), 0);
  const std::vector<double> scores = orion::scores_of(deviations.pairs, deviations.levels);
  const auto most = std::ranges::max_element(scores);
  Judged out{.excess = healthy_->excess(deviations, kDayOfWindows),
             .reason = Reason::kUnlike,
             .live = static_cast<size_t>(most - scores.begin()),
             .deviation = std::sqrt(*most)};
  if (out.excess > 1) return out;
  for (size_t i = 0; i < models_->size(); ++i) {
    const auto values = judged.values.col(static_cast<Eigen::Index>(healthy_->columns()[i]));
    if ((*models_)[i].empty() || !values.allFinite()) continue;
    const double excess = (*models_)[i].fitted(values.cast<float>()).error / largest_errors_[i];
    if (excess > out.excess)
      out = {.excess = excess,
             .reason = Reason::kUnforeseen,
             .live = i,
             .deviation = std::abs(deviations.levels[i])};
  }
  return out;
}

Alarm Augury::alarm_for(const Judged& judged, int64_t t_ns) const {
  const size_t column = healthy_->columns()[judged.live];
  Alarm out{.reason = judged.reason,
            .t_ns = t_ns,
            .metric = names_[column],
            .aliases = {},
            .deviation = judged.deviation,
            .excess = judged.excess,
            .trend = {},
            .exhaustion = {}};
  for (const metric_trace::Live& live : healthy_->preparation().live)
    if (live.column == column)
      for (const size_t alias : live.aliases)
        out.aliases.push_back(names_[alias]);
  const Eigen::MatrixXd rows = window();
  const Eigen::VectorXd load = healthy_->load().of(series_of(rows));
  const Eigen::VectorXd values = rows.col(static_cast<Eigen::Index>(column));
  std::vector<double> times;
  for (const int64_t t : times_)
    times.push_back(static_cast<double>(t - times_.front()) * 1e-9);
  const auto size = static_cast<size_t>(values.size());
  const Result<metric_trace::Trend> trend = metric_trace::trend_of(
      times,
      metric_trace::without_load({values.data(), size}, {load.data(), size}, healthy_->slope(judged.live)));
  if (!trend || !trend->certain()) return out;
  out.trend = *trend;
  out.exhaustion = metric_trace::exhaustion(*trend, limits_[column], kHorizonSeconds);
  return out;
}

std::vector<Alarm> alarms_of(Augury augury, const Series& series) {
  std::vector<Alarm> out;
  for (const metric_trace::Segment& life : series.segments) {
    augury.restart();
    bool raised = false;
    for (size_t row = life.begin; row < life.end; ++row) {
      std::optional<Alarm> alarm =
          augury.step(series.t_ns[row], series.values.row(static_cast<Eigen::Index>(row)));
      if (alarm && !raised) out.push_back(std::move(*alarm));
      raised = alarm.has_value();
    }
  }
  return out;
}

}  // namespace kintsugi::augury

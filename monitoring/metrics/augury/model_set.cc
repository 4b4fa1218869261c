#include "monitoring/metrics/augury/model_set.h"

#include <cmath>
#include <limits>

#include "monitoring/metrics/trace/windows.h"

namespace kintsugi::augury {
namespace {

/// Two models whose forecasts of healthy windows differ by less than this share of them are one.
constexpr double kSameForecasts = 0.01;
constexpr size_t kMostProbes = 200;
/// The fewest rows that a model is made from.
constexpr size_t kShortestStretch = 3 * kWindow;

Eigen::VectorXf forecast_by(const Forecaster& forecaster, const Eigen::Ref<const Eigen::VectorXf>& rows) {
  return forecaster.weights * rows + forecaster.constant;
}

/// All p and q from 0 to 3 with the d that suits the values, which is chosen first: AIC compares only models of one d.
std::vector<Order> orders_for(std::span<const double> values) {
  const int d = differences_of(values);
  std::vector<Order> out;
  for (int p = 0; p <= 3; ++p)
    for (int q = 0; q <= 3; ++q)
      if (p + q > 0 || d > 0) out.push_back({.p = p, .d = d, .q = q});
  return out;
}

}  // namespace

ModelSet ModelSet::learn(const metric_trace::Series& healthy, size_t column) {
  ModelSet out;
  const auto values = healthy.values.col(static_cast<Eigen::Index>(column));
  std::vector<Eigen::VectorXf> probes;
  const size_t stride = std::max<size_t>(healthy.rows() / kMostProbes, 1);
  for (const size_t begin : metric_trace::window_begins(healthy.segments, kWindow, stride))
    if (const auto window = values.segment(static_cast<Eigen::Index>(begin), kWindow); window.allFinite())
      probes.push_back(window.cast<float>());
  for (const metric_trace::Segment& life : healthy.segments)
    for (size_t begin = life.begin; begin + kShortestStretch <= life.end; begin += kStretch) {
      const size_t rows = std::min(kStretch, life.end - begin);
      const Eigen::VectorXd stretch =
          values.segment(static_cast<Eigen::Index>(begin), static_cast<Eigen::Index>(rows));
      const std::span<const double> all(stretch.data(), rows);
      if (!stretch.allFinite()) continue;
      if (const auto model = best_fit(all, orders_for(all), Likelihood::kConditional))
        out.add(*model, probes);
    }
  return out;
}

void ModelSet::add(const Model& model, const std::vector<Eigen::VectorXf>& probes) {
  const Forecaster after = forecaster(model, kWindow, kAhead);
  for (const Forecaster& other : after_) {
    double difference = 0, size = 0;
    for (const Eigen::VectorXf& probe : probes) {
      const Eigen::VectorXf ours = forecast_by(after, probe);
      difference += (ours - forecast_by(other, probe)).squaredNorm();
      size += ours.squaredNorm();
    }
    if (difference <= kSameForecasts * kSameForecasts * size) return;
  }
  models_.push_back(model);
  inside_.push_back(forecaster(model, kWindow - kAhead, kAhead));
  after_.push_back(after);
}

Fitted ModelSet::fitted(const Eigen::Ref<const Eigen::VectorXf>& window) const {
  Fitted best{.model = 0, .error = std::numeric_limits<double>::infinity()};
  for (size_t i = 0; i < models_.size(); ++i) {
    const Eigen::VectorXf off = forecast_by(inside_[i], window.head(kWindow - kAhead)) - window.tail(kAhead);
    const double error = std::sqrt(static_cast<double>(off.squaredNorm()) / kAhead);
    if (error < best.error) best = {.model = i, .error = error};
  }
  return best;
}

Eigen::VectorXf ModelSet::forecast(const Fitted& fitted,
                                   const Eigen::Ref<const Eigen::VectorXf>& window) const {
  return forecast_by(after_[fitted.model], window);
}

}  // namespace kintsugi::augury

/// The forecasting models of one metric, and which of them suits a window (Laguna 2012, 7.4.1 and 7.4.3). Pure.
#pragma once

#include <vector>

#include <Eigen/Core>

#include "monitoring/metrics/augury/arima.h"
#include "monitoring/metrics/trace/series.h"

namespace kintsugi::augury {

/// Rows of a window, and rows that are forecast; both as in the text.
inline constexpr size_t kWindow = 100;
inline constexpr size_t kAhead = 15;

struct Fitted {
  size_t model = 0;  ///< index into models()
  double error = 0;  ///< root mean square of its forecast of the window's last kAhead rows
};

class ModelSet {
 public:
  /// A model for each stretch of at most kStretch rows of every life. Stretches without movement or with missing values
  /// have none; the set may be empty. Models that forecast the same are kept once.
  static ModelSet learn(const metric_trace::Series& healthy, size_t column);
  static constexpr size_t kStretch = 1000;

  /// The model that forecasts the last kAhead rows of the window best from those before. REQUIRES: not empty, kWindow rows.
  Fitted fitted(const Eigen::Ref<const Eigen::VectorXf>& window) const;
  /// What that model says of the kAhead rows after the window.
  Eigen::VectorXf forecast(const Fitted& fitted, const Eigen::Ref<const Eigen::VectorXf>& window) const;

  const std::vector<Model>& models() const { return models_; }
  bool empty() const { return models_.empty(); }

 private:
  void add(const Model& model, const std::vector<Eigen::VectorXf>& probes);

  std::vector<Model> models_;
  /// From the window's first rows to its last, from all of it to the next.
  std::vector<Forecaster> inside_, after_;
};

}  // namespace kintsugi::augury

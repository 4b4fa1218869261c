/// AUGURY (Laguna 2012, chapter 7): an alarm before the failure. Rows come one by one; each is judged with the kWindow rows
/// before it against what healthy windows look like, and against what the metrics' own models forecast.
///
/// Ours compares windows as HealthyWindows does (the text's form, whose distance is ruled by noise, is in tests/texts/metrics), and
/// adds what an operator asks next: which resource, how fast, and when it ends. Pure.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "monitoring/metrics/augury/model_set.h"
#include "monitoring/metrics/orion/healthy_windows.h"
#include "monitoring/metrics/trace/exhaustion.h"

namespace kintsugi::augury {

enum class Reason : uint8_t {
  kUnlike,      ///< the window is unlike every healthy one
  kUnforeseen,  ///< no model of the metric forecasts it: a fault, or a load that training did not have
  kSilent,      ///< no values for kSilentRows rows
};

struct Alarm {
  Reason reason = Reason::kUnlike;
  int64_t t_ns = 0;
  std::string metric;                ///< the one that deviates most; empty: kSilent
  std::vector<std::string> aliases;  ///< metrics that always move with it
  double deviation = 0;              ///< how far that metric is off, in deviations of healthy windows
  double excess = 0;                 ///< distance or error, divided by its threshold
  /// Trend of that metric without what its load explains, if it is certain.
  std::optional<metric_trace::Trend> trend;
  /// When the limit is reached, and how much is left until then; empty: the metric has no limit or does not go there.
  std::optional<metric_trace::Exhaustion> exhaustion;
};

inline constexpr size_t kSilentRows = 5;
/// An alarm needs so many of the last rows above the threshold.
inline constexpr size_t kAlarmingRows = 3, kLastRows = 5;
inline constexpr double kHorizonSeconds = 7 * 86400.0;

struct Options {
  /// The last kAhead rows of a window are forecast ones: the text's mode F, which alarms more.
  bool forecast_rows = false;
};

/// One process. REQUIRES for all rows: the columns of the healthy series, in its order.
class Augury {
 public:
  /// kNotFound: not enough data, and why.
  static Result<Augury> learn(const metric_trace::Series& healthy, const Options& options);

  /// `row` has a value for each column (missing: NaN). REQUIRES: t_ns ascends.
  std::optional<Alarm> step(int64_t t_ns, const Eigen::Ref<const Eigen::RowVectorXd>& row);
  /// The process is another one: nothing is known of its past.
  void restart();

  const orion::HealthyWindows& healthy() const { return *healthy_; }

 private:
  Augury() = default;

  struct Judged {
    double excess = 0;
    Reason reason = Reason::kUnlike;
    size_t live = 0;  ///< the metric that deviates most, among the live ones
    double deviation = 0;
  };
  Eigen::MatrixXd window() const;
  Judged judge() const;
  Alarm alarm_for(const Judged& judged, int64_t t_ns) const;
  double threshold_of_errors(const metric_trace::Series& healthy, size_t live) const;

  std::vector<std::string> names_;
  std::vector<double> limits_;
  std::shared_ptr<const orion::HealthyWindows> healthy_;
  std::shared_ptr<const std::vector<ModelSet>> models_;  ///< index: live metric
  /// Index: live metric; largest error of forecasts on the healthy trace.
  std::vector<double> largest_errors_;
  std::deque<Eigen::RowVectorXd> rows_;  ///< the last kWindow rows
  std::deque<int64_t> times_;
  std::deque<bool> above_;  ///< the last kLastRows
  size_t silent_ = 0;
};

/// The alarms of a whole series, of which each begins where none was in the row before.
std::vector<Alarm> alarms_of(Augury augury, const metric_trace::Series& series);

}  // namespace kintsugi::augury

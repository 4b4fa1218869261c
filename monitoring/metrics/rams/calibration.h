/// What the scores of healthy processes of one role are, and the threshold that follows from them. Pure.
///
/// p-values of textbooks mean nothing here: the noise of a healthy process is correlated itself, and at a coefficient of 0.6
/// a test at 1 % accuses 92 % of the healthy windows. So each score counts by its rank among healthy ones.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "monitoring/metrics/rams/node.h"

namespace kintsugi::rams {

/// Healthy values of one score. Above the 95th percentile their tail is taken as one of Pareto, so that values beyond all
/// healthy ones can be told apart; it gives an order, not a probability.
class Reference {
 public:
  explicit Reference(std::vector<double> healthy);

  /// About the share of healthy values that are at least as high; positive.
  double tail(double value) const;
  /// The share of healthy values below; at most (size - 1) / size, since no finer quantile is known.
  double quantile(double value) const;
  double at(double share) const;
  size_t size() const { return sorted_.size(); }

 private:
  std::vector<double> sorted_;
  double tail_begins_ = 0, tail_scale_ = 0;  ///< tail of log(1 + value)
};

using References = std::map<ScoreKey, Reference>;

/// The most remarkable score of a process at one time.
struct NodeScore {
  ScoreKey key;
  double value = 0;
  double quantile = 0;  ///< quantile of `value` among the healthy ones
  double surprise = 0;  ///< -log10 of its tail times the number of scores (Bonferroni); not below 0
  size_t scores = 0;    ///< number of scores that were looked at
  size_t reference_values = 0;
};
/// None: no score has both a value and a reference.
std::optional<NodeScore> node_score(std::span<const KeyedScore> scores, const References& references);

struct CalibrationOptions {
  ScoreOptions scores;
  size_t stride = 5;  ///< samples between two evaluations
  /// The threshold is this quantile of the highest node scores of healthy runs, each against the other runs.
  double threshold_share = 0.95;
};
/// Fewer runs give no threshold.
inline constexpr size_t kFewestRuns = 5;

struct Calibration {
  std::string role;  ///< for instance "chunkserver"
  Origin origin = Origin::kPerf;
  References references;
  double threshold = 0;  ///< an alarm is a node score above it
  size_t runs = 0;
  CalibrationOptions options;
};

/// Runs of healthy processes of one role. kHealthyReference: too few of them give a score.
Answer<Calibration> calibrate(std::string role, std::span<const Inputs> healthy,
                              const CalibrationOptions& options = {});

}  // namespace kintsugi::rams

/// What an execution of a region of code costs of a metric. A row of samples is taken between two executions or in the
/// middle of one, so that the text's profile (what grew while a region ran; Laguna 2012, 6.3) charges each region with the
/// work of all others that ran meanwhile. Rows say how many executions of each region ended, though, and what leaks
/// grows with the number of those that leak. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <Eigen/Core>

#include "monitoring/metrics/trace/series.h"

namespace kintsugi::orion {

/// A region whose executions cost more than on the healthy trace.
struct DearerRegion {
  std::string name;
  std::vector<std::string> aliases;  ///< regions whose executions end in the same rows
  double each = 0;                   ///< by how much the metric grows with each execution; negative: it falls
  double before = 0;                 ///< the same on the healthy trace
  double part =
      0;  ///< so much of what the metric grew by (or fell) is due to executions that cost more; 1: all; of all regions at most 1

  bool operator==(const DearerRegion&) const = default;
};

/// "it grows by 1 with each chunkserver.commit (and serve.WriteChunk, which end with it), 0.01 before: 92 % of its growth"
std::string describe(const DearerRegion& region);

/// The growth of a metric from row to row is explained by the executions that ended in the row and by time alone, with
/// costs that are not negative, by least squares: once on the healthy trace, once now.
class Costs {
 public:
  /// Regions beyond this, those with the fewest executions now, are left out.
  static constexpr size_t kMostRegions = 64;

  /// REQUIRES: both have the same columns, and outlive it. Without a healthy trace executions cost nothing on it.
  Costs(const metric_trace::Series& healthy, const metric_trace::Series& now) : Costs(&healthy, now) {}
  explicit Costs(const metric_trace::Series& now) : Costs(nullptr, now) {}

  /// The greatest part first, at most `most`. Empty: the metric grows no more than on the healthy trace, or the traces do
  /// not say what ended.
  std::vector<DearerRegion> dearer(size_t column, size_t most) const;

 private:
  /// Regions whose counts go together are one.
  struct Group {
    std::string name;
    std::vector<std::string> aliases;
  };
  struct Side {
    const metric_trace::Series* series = nullptr;
    std::vector<bool> tells;  ///< index: row; it says what ended
    Eigen::MatrixXd ended;    ///< rows by groups, and a last column of ones; zero in rows that do not say it
    Eigen::MatrixXd gram;     ///< products of all rows
  };
  struct Explained {
    Eigen::VectorXd costs;       ///< cost of an execution of each group; the last: of a row
    Eigen::VectorXd counts;      ///< executions of each group, and rows, in which the growth is known
    Eigen::VectorXd variances;   ///< squares of the costs' standard errors
    bool not_by_chance = false;  ///< executions explain the growth better than time alone
    double growth = 0;           ///< in all
    size_t rows = 0;
  };
  Costs(const metric_trace::Series* healthy, const metric_trace::Series& now);
  Side side_of(const metric_trace::Series& series) const;
  static double growth_a_row(const Side& side, size_t column);
  static Explained explain(const Side& side, size_t column, double sign);

  std::vector<Group> groups_;
  std::optional<Side> healthy_;
  Side now_;
};

}  // namespace kintsugi::orion

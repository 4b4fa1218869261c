/// The metrics of one process as series that analyses compare: rates of counters, gauges, NaN where nothing is known.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <Eigen/Core>

#include "monitoring/metrics/trace/trace.h"

namespace kintsugi::metric_trace {

/// Rows of one life of a process, without a long gap.
struct Segment {
  size_t begin = 0;  ///< first row
  size_t end = 0;    ///< one past the last
  std::string build_id;

  size_t rows() const { return end - begin; }
};

struct Series {
  std::string source;
  std::chrono::nanoseconds period{0};
  std::vector<std::string> names;  ///< names of the columns
  std::vector<Kind> kinds;
  std::vector<double> limits;  ///< kMissing: none is known
  Eigen::MatrixXd values;      ///< rows by metrics; a counter's are its increase a second
  std::vector<int64_t> t_ns;   ///< time of each row
  std::vector<Segment> segments;
  std::vector<std::string> regions;
  std::vector<std::vector<RegionActivity>>
      activity;  ///< what each row says of regions, as indices into `regions`

  size_t rows() const { return t_ns.size(); }
};

/// A longer gap, in rows, begins a new segment.
inline constexpr int64_t kLongestGap = 60;
/// A value is carried forward over at most so many rows.
inline constexpr size_t kMostCarried = 3;

/// The series of one source. A restart, a counter that decreases, a clock that steps and a long gap begin a new segment,
/// whose first row is left out because rates need the one before. Rows that are missing in between are there as NaN. What
/// ended while a daemon's page did not answer is shared evenly among the rows of that time.
/// REQUIRES: source < trace.header.sources.size().
Series series_of(const Trace& trace, uint32_t source);

/// Returns the same metrics in the order of `names`; columns that `series` does not have are NaN.
Series with_columns(const Series& series, const std::vector<std::string>& names);

/// The rows from `begin` to before `end`.
Series slice(const Series& series, size_t begin, size_t end);

}  // namespace kintsugi::metric_trace

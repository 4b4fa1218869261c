/// The series of a process that RAMS sets against one another: its own work, and what it has the system do. Pure.
#pragma once

#include <string>
#include <vector>

#include "monitoring/metrics/rams/regression.h"
#include "monitoring/metrics/trace/series.h"

namespace kintsugi::rams {

/// Where the series come from. kPerf: sampled by the kernel's clock events (needs permission); kProc: times of /proc, which
/// the kernel counts in ticks, so rows are averaged.
enum class Origin : uint8_t { kPerf, kProc };

struct Inputs {
  Origin origin = Origin::kPerf;
  std::string source;                 ///< the process, for instance "chunkserver-3"
  std::string app_name;               ///< the metric that is its own work
  std::vector<std::string> channels;  ///< the metrics of `os`
  Eigen::VectorXd app;                ///< index: row; NaN: unknown
  Eigen::MatrixXd os;                 ///< rows by channels
  Eigen::VectorXd processors;         ///< processors that it used, in its own code and in the kernel
  Eigen::VectorXd open;               ///< executions of its regions that were open
  std::chrono::nanoseconds period{0};
  std::vector<int64_t> t_ns;  ///< time of each row
  std::vector<metric_trace::Segment> segments;

  size_t rows() const { return t_ns.size(); }
};

struct ChannelOptions {
  bool perf = true;  ///< the samples of perf are used where the trace has them
  /// Rows of times of /proc are averaged over so long.
  std::chrono::nanoseconds proc_period = std::chrono::seconds(10);
};

/// kMetrics: the trace has no known value of the process's own work, or of all that the system does for it.
Answer<Inputs> inputs_of(const metric_trace::Series& series, const ChannelOptions& options = {});

}  // namespace kintsugi::rams

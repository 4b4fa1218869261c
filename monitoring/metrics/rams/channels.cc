#include "monitoring/metrics/rams/channels.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "monitoring/metrics/trace/coarser.h"

namespace kintsugi::rams {

namespace {

using metric_trace::Series;

struct Names {
  std::string_view app, kernel;
  double processors_per_unit;  ///< what one unit a second of app or kernel is in processors
  std::array<std::string_view, 4> channels;
};

/// perf samples each processor 1000 times a second.
constexpr Names kPerfNames{"user_samples",
                           "kernel_samples",
                           1e-3,
                           {"kernel_samples", "voluntary_ctxt_switches", "page_faults_user", "raw_syscalls"}};
constexpr Names kProcNames{
    "utime", "stime", 1, {"stime", "voluntary_ctxt_switches", "minflt", "raw_syscalls"}};

/// The column of that name if it has a value anywhere.
std::optional<Eigen::Index> column_of(const Series& series, std::string_view name) {
  const auto found = std::ranges::find(series.names, name);
  if (found == series.names.end()) return std::nullopt;
  const auto column = static_cast<Eigen::Index>(found - series.names.begin());
  if (series.values.col(column).array().isNaN().all()) return std::nullopt;
  return column;
}

Answer<Inputs> inputs_of(const Series& series, const Names& names, Origin origin) {
  const auto app = column_of(series, names.app), kernel = column_of(series, names.kernel);
  if (!app || !kernel) return NotEnough{Lack::kMetrics};
  Inputs inputs;
  inputs.origin = origin;
  inputs.source = series.source;
  inputs.app_name = names.app;
  inputs.period = series.period;
  inputs.t_ns = series.t_ns;
  inputs.segments = series.segments;
  inputs.app = series.values.col(*app);
  inputs.processors = (inputs.app + series.values.col(*kernel)) * names.processors_per_unit;
  std::vector<Eigen::Index> columns;
  for (const std::string_view name : names.channels) {
    const auto column = column_of(series, name);
    if (!column) continue;
    columns.push_back(*column);
    inputs.channels.emplace_back(name);
  }
  inputs.os = series.values(Eigen::all, columns);
  inputs.open = Eigen::VectorXd::Zero(inputs.app.size());
  for (size_t row = 0; row < series.activity.size(); ++row) {
    for (const metric_trace::RegionActivity& region : series.activity[row])
      inputs.open[static_cast<Eigen::Index>(row)] += static_cast<double>(region.open);
  }
  return inputs;
}

}  // namespace

Answer<Inputs> inputs_of(const Series& series, const ChannelOptions& options) {
  if (options.perf) {
    auto inputs = inputs_of(series, kPerfNames, Origin::kPerf);
    if (inputs) return inputs;
  }
  return inputs_of(metric_trace::averaged_to(series, options.proc_period), kProcNames, Origin::kProc);
}

}  // namespace kintsugi::rams

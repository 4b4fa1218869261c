#include "monitoring/metrics/rams/channels.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>

namespace kintsugi::rams {

namespace {

using metric_trace::Segment;
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

/// Averages `rows` rows at a time within each segment; what does not fill a row at its end is left out.
Inputs averaged(const Inputs& in, size_t rows) {
  if (rows <= 1) return in;
  Inputs out = in;
  out.period = in.period * static_cast<int64_t>(rows);
  out.t_ns.clear();
  out.segments.clear();
  std::vector<Eigen::Index> firsts;
  for (const Segment& segment : in.segments) {
    const size_t begin = firsts.size();
    for (size_t row = segment.begin; row + rows <= segment.end; row += rows) {
      firsts.push_back(static_cast<Eigen::Index>(row));
      out.t_ns.push_back(in.t_ns[row + rows - 1]);
    }
    if (firsts.size() > begin) out.segments.push_back({begin, firsts.size(), segment.build_id});
  }
  const auto count = static_cast<Eigen::Index>(firsts.size()), width = static_cast<Eigen::Index>(rows);
  out.app.resize(count);
  out.processors.resize(count);
  out.open.resize(count);
  out.os.resize(count, in.os.cols());
  for (Eigen::Index i = 0; i < count; ++i) {
    const Eigen::Index first = firsts[static_cast<size_t>(i)];
    out.app[i] = in.app.segment(first, width).mean();
    out.processors[i] = in.processors.segment(first, width).mean();
    out.open[i] = in.open.segment(first, width).mean();
    out.os.row(i) = in.os.middleRows(first, width).colwise().mean();
  }
  return out;
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
  for (size_t row = 0; row < series.open.size(); ++row) {
    for (const metric_trace::OpenRegion& region : series.open[row])
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
  const auto inputs = inputs_of(series, kProcNames, Origin::kProc);
  if (!inputs || series.period.count() <= 0) return inputs;
  return averaged(*inputs, static_cast<size_t>(options.proc_period / series.period));
}

}  // namespace kintsugi::rams

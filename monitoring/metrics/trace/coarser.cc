#include "monitoring/metrics/trace/coarser.h"

#include <algorithm>
#include <map>

namespace kintsugi::metric_trace {
namespace {

/// What was open on average, and all that ended.
std::vector<RegionActivity> together(const Series& series, size_t begin, size_t rows) {
  std::map<uint32_t, RegionActivity> by_region;
  for (size_t row = begin; row < begin + rows; ++row)
    for (const RegionActivity& each : series.activity[row]) {
      RegionActivity& sum = by_region[each.region];
      sum.region = each.region;
      sum.open += each.open / static_cast<float>(rows);
      sum.ended += each.ended;
    }
  std::vector<RegionActivity> out;
  for (const auto& [region, activity] : by_region)
    out.push_back(activity);
  return out;
}

}  // namespace

Series averaged(const Series& series, size_t rows) {
  if (rows < 2) return series;
  Series out = series;
  out.period = series.period * static_cast<int64_t>(rows);
  out.t_ns.clear();
  out.activity.clear();
  out.segments.clear();
  std::vector<Eigen::Index> firsts;
  for (const Segment& segment : series.segments) {
    const size_t begin = firsts.size();
    for (size_t row = segment.begin; row + rows <= segment.end; row += rows) {
      firsts.push_back(static_cast<Eigen::Index>(row));
      out.t_ns.push_back(series.t_ns[row + rows - 1]);
      out.activity.push_back(together(series, row, rows));
    }
    if (firsts.size() > begin) out.segments.push_back({begin, firsts.size(), segment.build_id});
  }
  out.values.resize(static_cast<Eigen::Index>(firsts.size()), series.values.cols());
  for (size_t i = 0; i < firsts.size(); ++i)
    out.values.row(static_cast<Eigen::Index>(i)) =
        series.values.middleRows(firsts[i], static_cast<Eigen::Index>(rows)).colwise().mean();
  return out;
}

Series averaged_to(const Series& series, std::chrono::nanoseconds period) {
  if (series.period.count() <= 0) return series;
  return averaged(series, static_cast<size_t>(std::max<int64_t>(period / series.period, 1)));
}

std::vector<Series> stretches(const Series& series, std::chrono::nanoseconds length) {
  std::vector<Series> out;
  if (series.period.count() <= 0) return out;
  const auto rows = static_cast<size_t>(std::max<int64_t>(length / series.period, 1));
  for (const Segment& segment : series.segments)
    for (size_t begin = segment.begin; begin + rows <= segment.end; begin += rows)
      out.push_back(slice(series, begin, begin + rows));
  return out;
}

std::string role_of(const std::string& source) {
  const size_t end = source.find_last_not_of("0123456789.:");
  if (end == std::string::npos) return source;
  const size_t last = source.find_last_not_of("- ", end);
  return last == std::string::npos ? source : source.substr(0, last + 1);
}

}  // namespace kintsugi::metric_trace

#include "monitoring/metrics/trace/series.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kintsugi::metric_trace {
namespace {

/// Makes the rows of one source, in order.
class Builder {
 public:
  Builder(const Trace& trace, uint32_t source) : trace_(trace), source_(source) {
    const Header& header = trace.header;
    out_.source = header.sources[source].name;
    out_.period = header.period;
    build_id_ = header.sources[source].build_id;
    for (size_t i = 0; i < header.metrics.size(); ++i) {
      if (header.metrics[i].source != source) continue;
      columns_.push_back(i);
      out_.names.push_back(header.metrics[i].name);
      out_.kinds.push_back(header.metrics[i].kind);
      out_.limits.push_back(header.metrics[i].limit);
    }
    regions_.assign(header.regions.size(), kElsewhere);
    for (size_t i = 0; i < header.regions.size(); ++i)
      if (header.regions[i].source == source) {
        regions_[i] = static_cast<uint32_t>(out_.regions.size());
        out_.regions.push_back(header.regions[i].name);
      }
    last_.resize(columns_.size(), kMissing);
    last_row_.resize(columns_.size(), 0);
  }

  Series build() {
    for (const Row& row : trace_.rows)
      add(row);
    end_segment();
    std::erase_if(out_.segments, [](const Segment& segment) { return segment.rows() == 0; });
    out_.values.resize(static_cast<Eigen::Index>(out_.t_ns.size()),
                       static_cast<Eigen::Index>(columns_.size()));
    for (size_t row = 0; row < out_.t_ns.size(); ++row)
      for (size_t column = 0; column < columns_.size(); ++column)
        out_.values(static_cast<Eigen::Index>(row), static_cast<Eigen::Index>(column)) =
            rows_[row * columns_.size() + column];
    carry_forward();
    return std::move(out_);
  }

 private:
  static constexpr uint32_t kElsewhere = UINT32_MAX;

  void add(const Row& row) {
    bool restarted = false;
    for (const Restart& restart : row.restarts)
      if (restart.source == source_) {
        restarted = true;
        end_segment();
        build_id_ = restart.build_id;
      }
    const int64_t period = out_.period.count();
    const int64_t steps = begun_ ? (row.t_ns - last_t_ns_ + period / 2) / period : 0;
    if (!begun_ || restarted || row.t_ns <= last_t_ns_ || steps > kLongestGap || decreases(row))
      return begin(row);
    for (int64_t missing = 1; missing < steps; ++missing)
      push_missing(last_t_ns_ + missing * period);
    push(row);
  }

  bool decreases(const Row& row) const {
    for (size_t i = 0; i < columns_.size(); ++i)
      if (out_.kinds[i] == Kind::kCounter && row.values[columns_[i]] < last_[i]) return true;
    return false;
  }

  /// The row is the one before the first of a segment.
  void begin(const Row& row) {
    end_segment();
    begun_ = true;
    segment_begin_ = out_.t_ns.size();
    silent_ = 0;
    std::ranges::fill(last_, kMissing);
    remember(row);
    last_t_ns_ = row.t_ns;
  }

  void end_segment() {
    if (begun_)
      out_.segments.push_back({.begin = segment_begin_, .end = out_.t_ns.size(), .build_id = build_id_});
    begun_ = false;
  }

  void push_missing(int64_t t_ns) {
    rows_.resize(rows_.size() + columns_.size(), kMissing);
    out_.t_ns.push_back(t_ns);
    out_.activity.emplace_back();
    ++silent_;
  }

  void push(const Row& row) {
    const auto now = static_cast<double>(out_.t_ns.size() + 1);
    const double seconds = std::chrono::duration<double>(out_.period).count();
    for (size_t i = 0; i < columns_.size(); ++i) {
      const double value = row.values[columns_[i]];
      rows_.push_back(out_.kinds[i] == Kind::kGauge ? value
                                                    : (value - last_[i]) / ((now - last_row_[i]) * seconds));
    }
    out_.t_ns.push_back(row.t_ns);
    auto& activity = out_.activity.emplace_back();
    for (const RegionActivity& one : row.activity)
      if (regions_[one.region] != kElsewhere)
        activity.push_back({.region = regions_[one.region], .open = one.open, .ended = one.ended});
    if (activity.empty() && misses_values(row))
      ++silent_;
    else
      share_what_ended();
    remember(row);
    last_t_ns_ = row.t_ns;
  }

  /// It has no value of what the last row that was not silent has: the daemon's page did not answer.
  bool misses_values(const Row& row) const {
    const auto last_told = static_cast<double>(out_.t_ns.size() - 1 - silent_);
    for (size_t i = 0; i < columns_.size(); ++i)
      if (last_row_[i] == last_told && !std::isnan(last_[i]) && std::isnan(row.values[columns_[i]]))
        return true;
    return false;
  }

  /// The last row says what ended since the row before the silent ones, as much in each as in another.
  void share_what_ended() {
    const size_t last = out_.activity.size() - 1, silent = std::exchange(silent_, 0);
    if (silent == 0) return;
    for (RegionActivity& each : out_.activity[last]) {
      if (!(each.ended > 0)) continue;
      each.ended /= static_cast<float>(silent + 1);
      for (size_t row = last - silent; row < last; ++row)
        out_.activity[row].push_back({.region = each.region, .open = 0, .ended = each.ended});
    }
  }

  void remember(const Row& row) {
    for (size_t i = 0; i < columns_.size(); ++i)
      if (const double value = row.values[columns_[i]]; !std::isnan(value)) {
        last_[i] = value;
        last_row_[i] = static_cast<double>(out_.t_ns.size());
      }
  }

  void carry_forward() {
    for (const Segment& segment : out_.segments)
      for (Eigen::Index column = 0; column < out_.values.cols(); ++column)
        for (size_t row = segment.begin + 1; row < segment.end;) {
          size_t end = row;
          while (end < segment.end && std::isnan(at(end, column)))
            ++end;
          if (end - row <= kMostCarried)
            for (size_t i = row; i < end; ++i)
              at(i, column) = at(row - 1, column);
          row = end + 1;
        }
  }
  double& at(size_t row, Eigen::Index column) { return out_.values(static_cast<Eigen::Index>(row), column); }

  const Trace& trace_;
  const uint32_t source_;
  Series out_;
  std::vector<double> rows_;     ///< values, row by row
  std::vector<size_t> columns_;  ///< index: metric of the source; its column of the trace
  std::vector<uint32_t> regions_;
  std::vector<double> last_;      ///< index: metric; last known value in this segment
  std::vector<double> last_row_;  ///< index: metric; the row of the output after which that was known
  std::string build_id_;
  int64_t last_t_ns_ = 0;
  size_t segment_begin_ = 0;
  size_t silent_ = 0;  ///< number of the last rows that do not say what ended
  bool begun_ = false;
};

}  // namespace

Series series_of(const Trace& trace, uint32_t source) {
  return Builder(trace, source).build();
}

Series with_columns(const Series& series, const std::vector<std::string>& names) {
  Series out = series;
  out.names = names;
  out.kinds.assign(names.size(), Kind::kGauge);
  out.limits.assign(names.size(), kMissing);
  out.values.setConstant(series.values.rows(), static_cast<Eigen::Index>(names.size()), kMissing);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = std::ranges::find(series.names, names[i]);
    if (found == series.names.end()) continue;
    const auto from = found - series.names.begin();
    out.kinds[i] = series.kinds[static_cast<size_t>(from)];
    out.limits[i] = series.limits[static_cast<size_t>(from)];
    out.values.col(static_cast<Eigen::Index>(i)) = series.values.col(from);
  }
  return out;
}

Series slice(const Series& series, size_t begin, size_t end) {
  Series out = series;
  const auto from = static_cast<std::ptrdiff_t>(begin), to = static_cast<std::ptrdiff_t>(end);
  out.values = series.values.middleRows(from, to - from).eval();
  out.t_ns.assign(series.t_ns.begin() + from, series.t_ns.begin() + to);
  out.activity.assign(series.activity.begin() + from, series.activity.begin() + to);
  out.segments.clear();
  for (const Segment& segment : series.segments) {
    const size_t first = std::max(segment.begin, begin), last = std::min(segment.end, end);
    if (first < last)
      out.segments.push_back({.begin = first - begin, .end = last - begin, .build_id = segment.build_id});
  }
  return out;
}

}  // namespace kintsugi::metric_trace

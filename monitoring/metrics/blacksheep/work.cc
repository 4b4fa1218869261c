#include "monitoring/metrics/blacksheep/work.h"

#include <algorithm>
#include <limits>
#include <set>

namespace kintsugi::blacksheep {

namespace {

using metric_trace::Series;

constexpr int64_t kWindowNs = std::chrono::nanoseconds(kWindow).count();
constexpr int64_t kStepNs = std::chrono::nanoseconds(kStep).count();
/// Share of the rows of a window that must be known.
constexpr double kKnownShare = 0.8;

int64_t step_before(int64_t t_ns) {
  return t_ns - ((t_ns % kStepNs) + kStepNs) % kStepNs;
}

std::vector<Eigen::Index> columns_of(const std::vector<std::string>& names,
                                     const std::vector<std::string>& wanted) {
  std::vector<Eigen::Index> out;
  for (const std::string& name : wanted) {
    const auto found = std::ranges::find(names, name);
    out.push_back(found == names.end() ? -1 : found - names.begin());
  }
  return out;
}

std::vector<Eigen::Index> not_among(const std::vector<std::string>& names,
                                    const std::vector<std::string>& asked) {
  std::vector<Eigen::Index> out;
  for (size_t i = 0; i < names.size(); ++i)
    if (std::ranges::find(asked, names[i]) == asked.end()) out.push_back(static_cast<Eigen::Index>(i));
  return out;
}

/// Means of the rows of one life of the process whose increases lie in the window; false: too few are known.
bool done_in(const Series& series, const metric_trace::Segment& life,
             const std::vector<Eigen::Index>& columns, int64_t begin_ns, Eigen::RowVectorXd& out) {
  const auto begin = series.t_ns.begin() + static_cast<std::ptrdiff_t>(life.begin);
  const auto end = series.t_ns.begin() + static_cast<std::ptrdiff_t>(life.end);
  const auto first = std::upper_bound(begin, end, begin_ns);
  const auto last = std::upper_bound(first, end, begin_ns + kWindowNs);
  out.setZero();
  double known = 0;
  for (auto row = first; row != last; ++row) {
    Eigen::RowVectorXd values(out.size());
    for (size_t i = 0; i < columns.size(); ++i)
      values[static_cast<Eigen::Index>(i)] = series.values(row - series.t_ns.begin(), columns[i]);
    if (!values.allFinite()) continue;
    out += values;
    known += 1;
  }
  out /= std::max(known, 1.0);
  return known * static_cast<double>(series.period.count()) >= kKnownShare * static_cast<double>(kWindowNs);
}

void fill_done(Work& out, const Series& series, const std::vector<std::string>& metrics) {
  const auto width = static_cast<Eigen::Index>(metrics.size());
  out.done.setConstant(static_cast<Eigen::Index>(out.windows()), width,
                       std::numeric_limits<double>::quiet_NaN());
  const std::vector<Eigen::Index> columns = columns_of(series.names, metrics);
  if (std::ranges::find(columns, -1) != columns.end()) return;
  Eigen::RowVectorXd done(width);
  for (const metric_trace::Segment& life : series.segments) {
    auto window = std::ranges::lower_bound(out.begins_ns, series.t_ns[life.begin] - kWindowNs);
    for (; window != out.begins_ns.end() && *window <= series.t_ns[life.end - 1]; ++window)
      if (done_in(series, life, columns, *window, done)) out.done.row(window - out.begins_ns.begin()) = done;
  }
}

void fill_from_log(Work& out, const States& states, const std::vector<std::string>& names) {
  const auto rows = static_cast<Eigen::Index>(out.windows()), width = static_cast<Eigen::Index>(names.size());
  out.ended.setZero(rows, width);
  out.open.setZero(rows, width);
  out.others.assign(out.windows(), false);
  const auto columns = columns_of(states.names, names), others = not_among(states.names, names);
  const int64_t period_ns = states.period.count();
  const auto intervals = static_cast<int64_t>(states.intervals());
  for (Eigen::Index window = 0; intervals > 0 && window < rows; ++window) {
    const int64_t from = (out.begins_ns[static_cast<size_t>(window)] - states.begin_ns) / period_ns;
    for (int64_t at = std::max<int64_t>(from, 0); at < from + kWindowNs / period_ns; ++at) {
      if (at < intervals && (states.overlapping(at, others).array() > 0).any())
        out.others[static_cast<size_t>(window)] = true;
      for (Eigen::Index state = 0; state < width; ++state) {
        const Eigen::Index column = columns[static_cast<size_t>(state)];
        if (column < 0) continue;
        out.open(window, state) +=
            at < intervals ? states.concurrency(at, column) : states.open_at_end(intervals - 1, column);
        if (at < intervals) out.ended(window, state) += states.ended(at, column);
      }
    }
  }
  out.open *= static_cast<double>(period_ns) / static_cast<double>(kWindowNs);
  out.ended /= std::chrono::duration<double>(kWindow).count();
}

/// A process that begins does what no execution tells of.
void leave_out_begins(Work& out, const States& states) {
  for (const size_t interval : states.begins) {
    const int64_t t_ns = states.begin_ns + static_cast<int64_t>(interval) * states.period.count();
    for (auto window = std::ranges::upper_bound(out.begins_ns, t_ns - kWindowNs - states.period.count());
         window != out.begins_ns.end() && *window <= t_ns + states.period.count(); ++window)
      out.done.row(window - out.begins_ns.begin()).setConstant(std::numeric_limits<double>::quiet_NaN());
  }
}

}  // namespace

std::vector<int64_t> window_begins(std::span<const Series> series) {
  std::set<int64_t> out;
  int64_t last = std::numeric_limits<int64_t>::min();
  for (const Series& each : series)
    for (const int64_t t_ns : each.t_ns) {
      if (const int64_t begin = step_before(t_ns); begin != last) {
        out.insert({begin - kStepNs, begin});
        last = begin;
      }
    }
  return {out.begin(), out.end()};
}

Work work_of(const Series& series, const States& states, const std::vector<int64_t>& begins_ns,
             const std::vector<std::string>& state_names, const std::vector<std::string>& metrics) {
  Work out{
      .source = series.source, .begins_ns = begins_ns, .ended = {}, .open = {}, .others = {}, .done = {}};
  fill_done(out, series, metrics);
  fill_from_log(out, states, state_names);
  leave_out_begins(out, states);
  return out;
}

}  // namespace kintsugi::blacksheep

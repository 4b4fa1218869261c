#include "monitoring/metrics/trace/preparation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/statistics.h"
#include "monitoring/metrics/trace/windows.h"

namespace kintsugi::metric_trace {
namespace {

bool constant(std::vector<double> values) {
  std::ranges::sort(values);
  size_t longest = 0, run = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    run = i > 0 && values[i] == values[i - 1] ? run + 1 : 1;
    longest = std::max(longest, run);
  }
  if (static_cast<double>(longest) > kConstantShare * static_cast<double>(values.size())) return true;
  return deviation_of(values) < kConstantVariation * std::abs(mean_of(values));
}

/// The groups of `columns` that move together, each by the positions of its members.
std::vector<std::vector<size_t>> groups_of(const Series& series, const std::vector<size_t>& columns) {
  if (columns.empty()) return {};
  const size_t size = std::min(kDuplicateWindow, std::max<size_t>(series.rows() / 4, 4));
  const Eigen::MatrixXd values = series.values(Eigen::all, columns);
  std::vector<uint32_t> together(pairs_of(columns.size())), seen(together.size());
  for (const size_t begin : window_begins(series.segments, size, size)) {
    const PairVector pairs =
        correlations(values.middleRows(static_cast<Eigen::Index>(begin), static_cast<Eigen::Index>(size)));
    for (size_t i = 0; i < pairs.size(); ++i) {
      seen[i] += std::isnan(pairs[i]) ? 0 : 1;
      together[i] += std::abs(pairs[i]) >= kDuplicateCorrelation ? 1 : 0;
    }
  }
  std::vector<size_t> leader(columns.size());
  std::iota(leader.begin(), leader.end(), size_t{0});
  const auto leader_of = [&](size_t i) {
    while (leader[i] != i)
      i = leader[i] = leader[leader[i]];
    return i;
  };
  const auto table = pair_table(columns.size());
  for (size_t i = 0; i < table.size(); ++i) {
    if (seen[i] == 0 || together[i] < kDuplicateShare * seen[i]) continue;
    const size_t a = leader_of(table[i].first), b = leader_of(table[i].second);
    leader[std::max(a, b)] = std::min(a, b);
  }
  std::vector<std::vector<size_t>> groups(columns.size());
  for (size_t i = 0; i < columns.size(); ++i)
    groups[leader_of(i)].push_back(i);
  std::erase_if(groups, [](const auto& group) { return group.empty(); });
  return groups;
}

}  // namespace

std::vector<size_t> Preparation::columns() const {
  std::vector<size_t> out;
  for (const Live& one : live)
    out.push_back(one.column);
  return out;
}

Preparation prepare(const Series& healthy) {
  Preparation out;
  std::vector<size_t> moving;
  for (size_t column = 0; column < healthy.names.size(); ++column) {
    std::vector<double> known;
    for (const double value : healthy.values.col(static_cast<Eigen::Index>(column)))
      if (std::isfinite(value)) known.push_back(value);
    if (known.size() * 2 <= healthy.rows()) {
      out.unknown.push_back(column);
    } else if (constant(known)) {
      const auto [low, high] = std::ranges::minmax(known);
      out.watched.push_back({.column = column, .low = low, .high = high});
    } else if (moving.size() < kMostLive) {
      moving.push_back(column);
    } else {
      ++out.left_out;
    }
  }
  for (const std::vector<size_t>& group : groups_of(healthy, moving)) {
    Live& live = out.live.emplace_back(Live{.column = moving[group.front()], .aliases = {}});
    for (size_t i = 1; i < group.size(); ++i)
      live.aliases.push_back(moving[group[i]]);
  }
  return out;
}

}  // namespace kintsugi::metric_trace

#include "monitoring/metrics/orion/as_printed.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kintsugi::orion {

using metric_trace::PairVector;
using metric_trace::Series;

namespace {

std::vector<PairVector> windows_of(const Series& series, const std::vector<size_t>& columns, size_t size) {
  const Eigen::MatrixXd values = series.values(Eigen::all, columns);
  std::vector<PairVector> out;
  for (const size_t begin : metric_trace::window_begins(series.segments, size, size))
    out.push_back(metric_trace::correlations(
        values.middleRows(static_cast<Eigen::Index>(begin), static_cast<Eigen::Index>(size))));
  return out;
}

double distance_between(const PairVector& a, const PairVector& b) {
  double sum = 0;
  size_t used = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    if (std::isnan(difference)) continue;
    sum += difference * difference;
    ++used;
  }
  return used == 0 ? 0 : std::sqrt(sum * static_cast<double>(a.size()) / static_cast<double>(used));
}

Status too_short(const char* which) {
  return {Code::kNotFound,
          std::string("not enough data: the ") + which + " trace is shorter than a window of 100 rows"};
}

}  // namespace

OddWindow nearest(const PairVector& window, const std::vector<PairVector>& healthy) {
  OddWindow out{.distance = std::numeric_limits<double>::infinity(), .pairs = {}};
  const PairVector* best = nullptr;
  for (const PairVector& each : healthy) {
    const double distance = distance_between(window, each);
    if (distance >= out.distance) continue;
    out.distance = distance;
    best = &each;
  }
  for (size_t i = 0; i < window.size(); ++i) {
    const double difference = static_cast<double>(window[i]) - (*best)[i];
    if (!std::isnan(difference)) out.pairs.emplace_back(i, difference * difference);
  }
  const size_t kept = std::min(kMostAbnormal, out.pairs.size());
  std::ranges::partial_sort(
      out.pairs, out.pairs.begin() + static_cast<std::ptrdiff_t>(kept),
      [](auto& a, auto& b) { return a.second != b.second ? a.second > b.second : a.first < b.first; });
  out.pairs.resize(kept);
  return out;
}

Result<std::vector<Votes>> metrics_as_printed(const Series& healthy, const Series& failed,
                                              const std::vector<size_t>& columns) {
  std::vector<OddWindow> odd;
  bool any_healthy = false;
  for (const size_t size : kWindowSizes) {
    const std::vector<PairVector> normal = windows_of(healthy, columns, size);
    any_healthy = any_healthy || !normal.empty();
    if (normal.empty()) continue;
    for (const PairVector& window : windows_of(failed, columns, size))
      odd.push_back(nearest(window, normal));
  }
  if (odd.empty()) return too_short(any_healthy ? "failed" : "healthy");
  std::ranges::stable_sort(odd, [](auto& a, auto& b) { return a.distance > b.distance; });
  odd.resize(std::min(odd.size(), kMostAbnormal));

  const auto table = metric_trace::pair_table(columns.size());
  std::vector<Votes> votes(columns.size());
  for (size_t i = 0; i < columns.size(); ++i)
    votes[i].column = columns[i];
  for (const OddWindow& window : odd)
    for (const auto& [pair, square] : window.pairs)
      for (const uint32_t metric : {table[pair].first, table[pair].second}) {
        ++votes[metric].votes;
        votes[metric].squares += square;
      }
  std::erase_if(votes, [](const Votes& each) { return each.votes == 0; });
  std::ranges::stable_sort(votes, [](const Votes& a, const Votes& b) {
    return a.votes != b.votes ? a.votes > b.votes : a.squares > b.squares;
  });
  return votes;
}

}  // namespace kintsugi::orion

#include "tracing/cause/coverage.h"

#include <algorithm>
#include <map>

namespace kintsugi::cause {
namespace {

using anomaly::CallPaths;
using anomaly::PathId;
using anomaly::PathTotal;
using anomaly::PathTotals;

/// By path: on how many flows of one side, and when it was first seen.
struct Seen {
  explicit Seen(size_t paths)
      : flows(paths), first(paths, std::numeric_limits<int64_t>::max()), where(paths) {}

  std::vector<size_t> flows;
  std::vector<int64_t> first;  ///< since the beginning of the flow
  std::vector<size_t> where;
};

Seen see(std::span<const PathTotals> side, const CallPaths& paths) {
  Seen seen(paths.size());
  std::vector<size_t> in(paths.size(), ~size_t{0});  // the flow that has it already
  for (size_t flow = 0; flow < side.size(); ++flow) {
    // The earliest first: a prefix was first seen when the first of its paths was.
    PathTotals totals = side[flow];
    std::stable_sort(totals.begin(), totals.end(),
                     [](const PathTotal& a, const PathTotal& b) { return a.first < b.first; });
    for (const PathTotal& total : totals) {
      const int64_t since = total.first - totals.front().first;
      for (PathId path = total.path; paths.depth(path) > 0 && in[path] != flow; path = paths.parent(path)) {
        in[path] = flow;
        ++seen.flows[path];
        if (since >= seen.first[path]) continue;
        seen.first[path] = since;
        seen.where[path] = flow;
      }
    }
  }
  return seen;
}

/// The differences of one side, those of one caller merged. Both sides are closed under prefixes, so a path is the effect of
/// an earlier difference if its caller is one.
void compare(Side side, const Seen& here, size_t all, const Seen& there, const CallPaths& paths,
             CoverageAnalysis& out) {
  const auto differs = [&](PathId path) { return here.flows[path] == all && there.flows[path] == 0; };
  std::map<PathId, CoverageDifference> by_caller;
  for (PathId path = 0; path < paths.size(); ++path) {
    if (paths.depth(path) == 0 || !differs(path)) continue;
    ++(side == Side::kOnlyAnomalous ? out.only_anomalous : out.only_normal);
    const PathId caller = paths.parent(path);
    if (paths.depth(caller) > 0 && differs(caller)) continue;
    ++out.pruned;
    by_caller[caller].calls.push_back(path);
  }
  for (auto& [caller, difference] : by_caller) {
    std::stable_sort(difference.calls.begin(), difference.calls.end(),
                     [&](PathId a, PathId b) { return here.first[a] < here.first[b]; });
    difference.side = side;
    difference.caller = caller;
    difference.first = here.first[difference.calls.front()];
    difference.flow = here.where[difference.calls.front()];
    out.differences.push_back(std::move(difference));
  }
}

}  // namespace

CoverageAnalysis analyse_coverage(std::span<const PathTotals> anomalous, std::span<const PathTotals> normal,
                                  const CallPaths& paths, Order order) {
  CoverageAnalysis analysis;
  if (anomalous.empty() || normal.empty()) return analysis;
  const Seen odd = see(anomalous, paths), usual = see(normal, paths);
  compare(Side::kOnlyAnomalous, odd, anomalous.size(), usual, paths, analysis);
  compare(Side::kOnlyNormal, usual, normal.size(), odd, paths, analysis);
  rank(analysis.differences, paths, order);
  return analysis;
}

void rank(std::vector<CoverageDifference>& differences, const CallPaths& paths, Order order) {
  const auto key = [&](const CoverageDifference& one) {
    const int64_t length = order == Order::kTime ? 0 : paths.depth(one.caller);
    return std::tuple(length, order == Order::kLength ? 0 : one.first, one.side, one.caller);
  };
  std::sort(differences.begin(), differences.end(),
            [&](const CoverageDifference& a, const CoverageDifference& b) { return key(a) < key(b); });
}

}  // namespace kintsugi::cause

#include "client/cli/trace_evidence.h"

#include <algorithm>
#include <cmath>
#include <ranges>

namespace kintsugi::cli {
namespace {

using anomaly::CallPaths;
using anomaly::PathId;

/// More functions of a path, or lines of an answer, are left out: those that are farthest from the cause.
constexpr size_t kMostFunctions = 32, kMostLines = 50;

const char* name_of(anomaly::Measure measure) {
  switch (measure) {
    case anomaly::Measure::kTime: return "time";
    case anomaly::Measure::kCoverage: return "coverage";
    case anomaly::Measure::kCommunication: break;
  }
  return "bytes";
}

const char* name_of(anomaly::Part part) {
  switch (part) {
    case anomaly::Part::kRunning: return "running";
    case anomaly::Part::kOwn: return "own";
    case anomaly::Part::kAll: break;
  }
  return "all";
}

/// The outermost function first.
Json functions_on(PathId path, const CallPaths& paths) {
  std::vector<std::string> names;
  for (; paths.depth(path) > 0 && names.size() < kMostFunctions; path = paths.parent(path))
    names.push_back(paths.last_name(path));
  Json functions = Json::array();
  for (std::string& name : std::views::reverse(names))
    functions.push_back(std::move(name));
  return functions;
}

Json differences_of(const cause::Explanation& explanation, const CallPaths& paths) {
  Json all = Json::array();
  for (const cause::Difference& one : explanation.differences)
    all.push_back({{"measure", name_of(one.measure)},
                   {"path", functions_on(one.path, paths)},
                   {"share", one.anomalous},
                   {"usually", one.normal}});
  return all;
}

Json calls_of(const cause::Explanation& explanation, const CallPaths& paths) {
  Json all = Json::array();
  for (const cause::CoverageDifference& one :
       explanation.coverage.differences | std::views::take(kMostLines)) {
    Json calls = Json::array();
    for (const PathId call : one.calls)
      calls.push_back(paths.last_name(call));
    all.push_back({{"made", one.side == cause::Side::kOnlyAnomalous},
                   {"caller", functions_on(one.caller, paths)},
                   {"calls", std::move(calls)}});
  }
  return all;
}

Json last_of(const cause::Explanation& explanation, const CallPaths& paths) {
  Json all = Json::array();
  for (const cause::LastEntry& one : explanation.last)
    all.push_back({{"path", functions_on(one.path, paths)}, {"returned", one.returned}});
  return all;
}

}  // namespace

Json evidence_of(const cause::Explanation& explanation, const CallPaths& paths) {
  const cause::CoverageAnalysis& coverage = explanation.coverage;
  const std::vector<anomaly::SuspectScore>& scores = explanation.ranking.scores;
  // One that has nobody to be compared with is infinitely far from others.
  const bool has_score = !scores.empty() && std::isfinite(scores.front().score);
  return {{"profile", std::string(anomaly::name_of(explanation.profile))},
          {"of", name_of(explanation.part)},
          {"score", has_score ? scores.front().score : 0},
          {"usual", explanation.ranking.usual},
          {"threshold", explanation.ranking.threshold},
          {"outliers", explanation.ranking.outliers},
          {"differences", differences_of(explanation, paths)},
          {"calls", calls_of(explanation, paths)},
          {"paths",
           {{"differing", coverage.only_anomalous + coverage.only_normal},
            {"pruned", coverage.pruned},
            {"merged", coverage.differences.size()}}},
          {"last", last_of(explanation, paths)},
          {"silent_s", static_cast<double>(explanation.silence.before_ns) / 1e9}};
}

}  // namespace kintsugi::cli

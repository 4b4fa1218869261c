#include "tracing/cause/explanation.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace kintsugi::cause {
namespace {

using anomaly::CallPaths;
using anomaly::PathTotals;
using anomaly::Profile;
using anomaly::ProfileKind;

std::vector<Profile> profiles_of(std::span<const PathTotals> all, const CallPaths& paths, ProfileKind kind) {
  std::vector<Profile> profiles;
  for (const PathTotals& totals : all)
    profiles.push_back(anomaly::profile_of(totals, paths, kind));
  return profiles;
}

/// Those of what is compared.
std::vector<PathTotals> trials_of(const flow::Trace& trace, const anomaly::Groups& groups, CallPaths& paths,
                                  const Question& question) {
  std::vector<PathTotals> found;
  std::span<const PathTotals> all = question.totals;
  if (all.empty()) {
    found = anomaly::totals_of(trace, groups, paths);
    all = found;
  }
  std::vector<PathTotals> some;
  for (uint32_t group : question.compared)
    some.push_back(all[group]);
  return some;
}

/// Ranks by one profile, and says by what the first differs from its neighbour.
Status judge(std::span<const PathTotals> trials, const CallPaths& paths, ProfileKind kind,
             const Question& question, const ExplanationSettings& settings, Explanation& out) {
  const std::vector<Profile> profiles = profiles_of(trials, paths, kind),
                             normal = profiles_of(question.normal, paths, kind);
  out.profile = kind;
  // Shares of time and bytes vary a little; a call is made or not.
  anomaly::OutlierSettings outliers;
  if (kind == ProfileKind::kCoverage) outliers.least_share = 0;
  KINTSUGI_ASSIGN(out.ranking, anomaly::rank(profiles, normal, outliers));
  if (out.ranking.answer == anomaly::Answer::kTooFew) return {};
  out.finding = Finding::kNoOutlier;
  if (out.ranking.answer == anomaly::Answer::kNoOutlier) return {};
  const anomaly::SuspectScore& top = out.ranking.scores.front();
  out.finding = Finding::kOutlier;
  out.culprit = question.compared[top.trial];
  out.differences =
      differences(profiles[top.trial], top.of_normal ? normal[top.neighbour] : profiles[top.neighbour],
                  settings.differences);
  return {};
}

/// The one that is odd against all that are not.
CoverageAnalysis coverage_of(std::span<const PathTotals> trials, const Explanation& found,
                             const CallPaths& paths, const Question& question, Order order) {
  std::vector<PathTotals> usual(question.normal.begin(), question.normal.end());
  const std::vector<anomaly::SuspectScore>& scores = found.ranking.scores;
  for (size_t i = found.ranking.outliers; i < scores.size(); ++i)
    usual.push_back(trials[scores[i].trial]);
  return analyse_coverage(trials.subspan(scores.front().trial, 1), usual, paths, order);
}

std::string share_of(const Difference& difference, const CallPaths& paths) {
  const char* what = difference.measure == anomaly::Measure::kTime            ? "of the time"
                     : difference.measure == anomaly::Measure::kCommunication ? "of the bytes sent"
                                                                              : "seen";
  return fmt::format("{} ({:.0f} % {}, usually {:.0f} %)", paths.text(difference.path),
                     100 * difference.anomalous, what, 100 * difference.normal);
}

/// The largest one, and the largest of the other measure: who waits sends nothing, and that it waits says more.
std::string describe_differences(std::span<const Difference> differences, const CallPaths& paths) {
  if (differences.empty()) return "";
  const Difference& first = differences.front();
  std::string text = fmt::format("Most of the difference: {}.\n", share_of(first, paths));
  const auto other =
      std::ranges::find_if(differences, [&](const Difference& one) { return one.measure != first.measure; });
  if (other != differences.end()) text += fmt::format("Also: {}.\n", share_of(*other, paths));
  return text;
}

}  // namespace

Result<Explanation> explain_processes(const flow::Trace& trace, CallPaths& paths, const Question& question,
                                      const ExplanationSettings& settings) {
  Explanation explanation;
  std::vector<anomaly::LastRecord> records = anomaly::last_records(trace);
  std::erase_if(records, [&](const anomaly::LastRecord& record) {
    return std::find(question.compared.begin(), question.compared.end(), record.process) ==
           question.compared.end();
  });
  explanation.silence = anomaly::earliest_last(records, settings.clock_precision_ns);
  if (explanation.silence.silence == anomaly::Silence::kFailStop) {
    explanation.finding = Finding::kFailStop;
    explanation.culprit = explanation.silence.earliest;
    explanation.last = last_entries(trace, paths);
    std::erase_if(explanation.last,
                  [&](const LastEntry& last) { return last.process != explanation.culprit; });
    return explanation;
  }
  const anomaly::Groups groups = anomaly::groups_by_process(trace);
  const std::vector<PathTotals> trials = trials_of(trace, groups, paths, question);
  KINTSUGI_TRY(judge(trials, paths, ProfileKind::kTime, question, settings, explanation));
  if (explanation.finding != Finding::kOutlier) return explanation;
  KINTSUGI_ASSIGN(explanation.interval, anomalous_interval(trace, groups, question.compared,
                                                           explanation.culprit, paths, settings.interval));
  explanation.coverage = coverage_of(trials, explanation, paths, question, settings.order);
  return explanation;
}

Result<Explanation> explain_flows(const flow::Trace& trace, const flow::Flows& flows, CallPaths& paths,
                                  const Question& question, const ExplanationSettings& settings) {
  Explanation explanation;
  const std::vector<PathTotals> trials =
      trials_of(trace, anomaly::groups_by_flow(flows, settings.replicate), paths, question);
  for (ProfileKind kind : {ProfileKind::kComposite, ProfileKind::kCoverage}) {
    KINTSUGI_TRY(judge(trials, paths, kind, question, settings, explanation));
    if (explanation.finding == Finding::kOutlier) break;
  }
  if (explanation.finding != Finding::kOutlier) return explanation;
  explanation.coverage = coverage_of(trials, explanation, paths, question, settings.order);
  explanation.last = last_entries(trace, flows, explanation.culprit, paths);
  return explanation;
}

std::vector<FlowsOfOneKind> kinds_of_flows(const flow::Trace& trace, const flow::Flows& flows) {
  // A start event that names no function is that of the function entered next.
  std::vector<flow::FunctionId> function(flows.flows.size(), flow::kNone);
  for (flow::EventId id = trace.size(); id-- > 0;)
    if (trace.event(id).kind == flow::Kind::kEntry) function[flows.of[id]] = trace.event(id).function;
  std::map<std::string_view, std::vector<flow::FlowId>> kinds;
  for (flow::FlowId id = 0; id < flows.flows.size(); ++id) {
    const flow::Flow& flow = flows.flows[id];
    if (flow.reason != flow::Reason::kStart && flow.reason != flow::Reason::kUnmatchedReceive) continue;
    const flow::FunctionId named = trace.event(flow.root).function;
    kinds[trace.name_of(named == flow::kNone ? function[id] : named)].push_back(id);
  }
  std::vector<FlowsOfOneKind> all;
  all.reserve(kinds.size());
  for (auto& [start, ids] : kinds)
    all.push_back({.start = std::string(start), .flows = std::move(ids)});
  std::stable_sort(all.begin(), all.end(), [](const FlowsOfOneKind& a, const FlowsOfOneKind& b) {
    return a.flows.size() > b.flows.size();
  });
  return all;
}

std::string describe(const Explanation& explanation, const CallPaths& paths, const std::string& name) {
  switch (explanation.finding) {
    case Finding::kTooFew:
      return "There is too little to compare with: four alike, or four that are known to be normal.\n";
    case Finding::kNoOutlier: return "There is no outlier: all are well, or all are affected alike.\n";
    case Finding::kFailStop: {
      std::string text = fmt::format("{} fell silent {:.3f} s before the others", name,
                                     static_cast<double>(explanation.silence.before_ns) / 1e9);
      for (const LastEntry& last : explanation.last)
        text += fmt::format("; it {} {}", last.returned ? "had just left" : "was in", paths.text(last.path));
      return text + ".\n";
    }
    case Finding::kOutlier: break;
  }
  std::string text =
      fmt::format("{} is unlike the others by its {} profile: its score is {:.2f}, the usual one {:.2f}.\n",
                  name, anomaly::name_of(explanation.profile), explanation.ranking.scores.front().score,
                  explanation.ranking.usual);
  if (explanation.profile != ProfileKind::kCoverage)
    text += describe_differences(explanation.differences, paths);
  size_t number = 0;
  for (const CoverageDifference& difference : explanation.coverage.differences) {
    if (++number > 15) break;
    text += fmt::format("{:2}. {} {} ", number, paths.text(difference.caller),
                        difference.side == Side::kOnlyAnomalous ? "alone calls" : "does not call");
    for (size_t i = 0; i < difference.calls.size(); ++i)
      text += (i == 0 ? "" : ", ") + paths.last_name(difference.calls[i]);
    text += ".\n";
  }
  return text;
}

}  // namespace kintsugi::cause

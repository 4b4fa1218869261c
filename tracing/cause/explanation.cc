#include "tracing/cause/explanation.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

namespace kintsugi::cause {
namespace {

using anomaly::CallPaths;
using anomaly::PathTotals;
using anomaly::Profile;
using anomaly::ProfileKind;

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

/// Runs that were well are given, and hold too few to tell what chance does.
bool has_too_few(const Question& question) {
  return question.known != nullptr && !question.known->tells_chance();
}

/// What is asked about requests, or processes.
struct Look {
  std::span<const PathTotals> trials;
  std::span<const uint32_t> processes;  ///< by trial: where a request began; empty: trials are processes
  const CallPaths& paths;
  const Question& question;
  const ExplanationSettings& settings;

  std::span<const anomaly::Waiting> waiting() const {
    return question.known != nullptr ? question.known->waiting() : question.waiting;
  }
};

/// Ranks by one profile.
Result<anomaly::Ranking> rank(const Look& look, Lens lens, std::span<const Profile> profiles,
                              std::span<const Profile> normal) {
  anomaly::OutlierSettings outliers;
  // Shares of time and bytes vary a little; a call is made or not.
  if (lens.kind == ProfileKind::kCoverage) outliers.least_share = 0;
  if (look.question.known != nullptr)
    outliers.least = kTimesChance * look.question.known->chance(lens);
  else if (lens.kind == ProfileKind::kElapsed)
    outliers.least = kLeastHeldUp;
  return anomaly::rank(profiles, normal, outliers);
}

/// The score of the oddest that is of another process than the first one.
double elsewhere(const Look& look, Lens lens, const anomaly::Ranking& ranking) {
  const std::span<const anomaly::SuspectScore> scores = ranking.scores;
  if (look.processes.empty()) return scores.size() < 2 ? 0 : scores[1].score;
  const uint32_t process = look.processes[scores.front().trial];
  if (look.question.known != nullptr) return look.question.known->elsewhere(lens, process);
  const auto other = std::ranges::find_if(
      scores, [&](const anomaly::SuspectScore& one) { return look.processes[one.trial] != process; });
  return other == scores.end() ? 0 : other->score;
}

/// Takes accusations back of those that are not much odder than somebody of another process.
void compare_with_others(const Look& look, Lens lens, anomaly::Ranking& ranking) {
  ranking.threshold = std::max(ranking.threshold, kTimesChance * elsewhere(look, lens, ranking));
  const auto accused = std::span(ranking.scores).first(ranking.outliers);
  ranking.outliers = static_cast<size_t>(std::ranges::count_if(
      accused, [&](const anomaly::SuspectScore& one) { return one.score > ranking.threshold; }));
  if (ranking.outliers == 0) ranking.answer = anomaly::Answer::kNoOutlier;
}

/// Ranks through one lens, and says by what the first differs from its neighbour.
Status judge(const Look& look, Lens lens, Explanation& out) {
  const std::vector<Profile> profiles = profiles_of(look.trials, look.paths, lens, look.waiting()),
                             normal = profiles_of(look.question.normal, look.paths, lens, look.waiting());
  out.profile = lens.kind;
  out.part = lens.part;
  KINTSUGI_ASSIGN(out.ranking, rank(look, lens, profiles, normal));
  const bool by_others = look.question.known != nullptr || lens.kind == ProfileKind::kElapsed;
  if (out.ranking.answer == anomaly::Answer::kOutlier && by_others)
    compare_with_others(look, lens, out.ranking);
  if (out.ranking.answer == anomaly::Answer::kTooFew) return {};
  out.finding = Finding::kNoOutlier;
  if (out.ranking.answer == anomaly::Answer::kNoOutlier) return {};
  const anomaly::SuspectScore& top = out.ranking.scores.front();
  out.finding = Finding::kOutlier;
  out.culprit = look.question.compared[top.trial];
  out.differences =
      differences(profiles[top.trial], top.of_normal ? normal[top.neighbour] : profiles[top.neighbour],
                  look.settings.differences);
  return {};
}

/// Says who calls most of what nobody called in the runs that were well.
Status judge_new_paths(const Look& look, Lens lens, Explanation& out) {
  anomaly::Ranking& ranking = out.ranking = {};
  out.profile = lens.kind;
  out.part = lens.part;
  KINTSUGI_ASSIGN(ranking.scores, look.question.known->scores(lens, look.trials, look.question.normal));
  ranking.usual = look.question.known->chance(lens);
  ranking.threshold = kTimesChance * ranking.usual;
  // Others that do as much that is new tell nothing of what is usual.
  ranking.outliers = ranking.scores.size();
  ranking.answer = anomaly::Answer::kOutlier;
  compare_with_others(look, lens, ranking);
  out.finding = ranking.outliers > 0 ? Finding::kOutlier : Finding::kNoOutlier;
  if (ranking.outliers > 0) out.culprit = look.question.compared[ranking.scores.front().trial];
  return {};
}

/// Through one lens after the other, until somebody is unlike the others.
Status judge_in_turn(const Look& look, std::span<const Lens> lenses, Explanation& out) {
  for (const Lens lens : lenses) {
    const bool is_new = look.question.known != nullptr && lens.kind == ProfileKind::kCoverage;
    // Nobody says what is new of a kind that there was none of.
    if (is_new && (look.question.normal.empty() || out.finding == Finding::kTooFew)) continue;
    KINTSUGI_TRY(is_new ? judge_new_paths(look, lens, out) : judge(look, lens, out));
    if (out.finding == Finding::kOutlier) break;
  }
  return {};
}

/// The one that is odd against all that are not.
CoverageAnalysis coverage_of(const Look& look, const Explanation& found) {
  const Question& question = look.question;
  std::vector<PathTotals> usual(question.normal.begin(), question.normal.end());
  const std::vector<anomaly::SuspectScore>& scores = found.ranking.scores;
  for (size_t i = found.ranking.outliers; i < scores.size(); ++i)
    usual.push_back(look.trials[scores[i].trial]);
  std::vector<PathTotals> odd{look.trials[scores.front().trial]};
  if (!look.waiting().empty())
    for (std::vector<PathTotals>* side : {&odd, &usual})
      for (PathTotals& totals : *side)
        totals = anomaly::calls_of(std::move(totals), look.waiting());
  return analyse_coverage(odd, usual, look.paths, look.settings.order);
}

/// What takes less than a millisecond is told in microseconds.
std::string time_of(double seconds) {
  const auto ns = std::llround(seconds * 1e9);
  if (ns == 0) return "0 s";
  return ns < 1'000'000 ? fmt::format("{:.3f} µs", static_cast<double>(ns) / 1e3)
                        : fmt::format("{:.3f} s", seconds);
}

std::string share_of(const Difference& difference, ProfileKind kind, const CallPaths& paths) {
  if (kind == ProfileKind::kElapsed)
    return fmt::format("{} ({}, usually {})", paths.text(difference.path), time_of(difference.anomalous),
                       time_of(difference.normal));
  const char* what = difference.measure == anomaly::Measure::kTime            ? "of the time"
                     : difference.measure == anomaly::Measure::kCommunication ? "of the bytes sent"
                                                                              : "seen";
  return fmt::format("{} ({:.0f} % {}, usually {:.0f} %)", paths.text(difference.path),
                     100 * difference.anomalous, what, 100 * difference.normal);
}

/// In seconds, the three largest: who waits for a coroutine of its own waits as long as that does. Of shares, the largest one and the
/// largest of the other measure: who waits sends nothing, and that it waits says more. If it has less time than usual somewhere,
/// also where it has more: that is divided among those who wait for one another, and so it is smaller.
std::vector<Difference> told(std::span<const Difference> differences, ProfileKind kind) {
  constexpr size_t kMost = 3;
  constexpr double kLeastShare = 0.1;  // of the largest one: the others are not worth a line
  std::vector<Difference> found;
  for (const Difference& one : differences.first(std::min(differences.size(), kMost)))
    if (found.empty() || (kind == ProfileKind::kElapsed &&
                          std::abs(one.delta()) >= kLeastShare * std::abs(found.front().delta())))
      found.push_back(one);
  if (kind == ProfileKind::kElapsed || differences.empty()) return found;
  const auto other = std::ranges::find_if(
      differences, [&](const Difference& one) { return one.measure != differences.front().measure; });
  if (other != differences.end()) found.push_back(*other);
  const auto is_less_time = [](const Difference& one) {
    return one.measure == anomaly::Measure::kTime && one.delta() < 0;
  };
  const auto less = std::ranges::find_if(found, is_less_time);
  if (less == found.end()) return found;
  const auto more = std::ranges::find_if(differences, [&](const Difference& one) {
    return one.measure == anomaly::Measure::kTime && one.delta() >= kLeastShare * std::abs(less->delta());
  });
  if (more != differences.end()) found.push_back(*more);
  return found;
}

std::string describe_differences(std::span<const Difference> differences, ProfileKind kind,
                                 const CallPaths& paths) {
  std::string text;
  for (const Difference& one : told(differences, kind))
    text += fmt::format("{}: {}.\n", text.empty() ? "Most of the difference" : "Also",
                        share_of(one, kind, paths));
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
    explanation.last = last_entries(trace, paths, settings.idle);
    std::erase_if(explanation.last,
                  [&](const LastEntry& last) { return last.process != explanation.culprit; });
    return explanation;
  }
  if (has_too_few(question)) return explanation;
  const anomaly::Groups groups = anomaly::groups_by_process(trace);
  const std::vector<PathTotals> trials = trials_of(trace, groups, paths, question);
  constexpr Lens kAlone[] = {{ProfileKind::kTime}},
                 kWithNormal[] = {{ProfileKind::kElapsed, anomaly::Part::kRunning},
                                  {ProfileKind::kTime, anomaly::Part::kOwn}};
  const Look look{.trials = trials, .paths = paths, .question = question, .settings = settings};
  KINTSUGI_TRY(judge_in_turn(look, question.known == nullptr ? std::span<const Lens>(kAlone) : kWithNormal,
                             explanation));
  if (explanation.finding != Finding::kOutlier) return explanation;
  KINTSUGI_ASSIGN(explanation.interval, anomalous_interval(trace, groups, question.compared,
                                                           explanation.culprit, paths, settings.interval));
  explanation.coverage = coverage_of(look, explanation);
  return explanation;
}

Result<Explanation> explain_flows(const flow::Trace& trace, const flow::Flows& flows, CallPaths& paths,
                                  const Question& question, const ExplanationSettings& settings) {
  Explanation explanation;
  if (has_too_few(question)) return explanation;
  const std::vector<PathTotals> trials =
      trials_of(trace, anomaly::groups_by_flow(flows, settings.replicate), paths, question);
  constexpr Lens kAlone[] = {
      {ProfileKind::kElapsed, anomaly::Part::kOwn}, {ProfileKind::kComposite}, {ProfileKind::kCoverage}};
  std::span<const Lens> lenses = question.known == nullptr ? std::span<const Lens>(kAlone) : kRequestLenses;
  // Whose wait for a message of somebody else is not known, of that cannot be said for how long it was held up.
  if (question.known == nullptr && question.waiting.empty()) lenses = lenses.subspan(1);
  const std::vector<uint32_t> processes = beginnings_of(trace, flows, question.compared);
  const Look look{
      .trials = trials, .processes = processes, .paths = paths, .question = question, .settings = settings};
  KINTSUGI_TRY(judge_in_turn(look, lenses, explanation));
  if (explanation.finding != Finding::kOutlier) return explanation;
  explanation.coverage = coverage_of(look, explanation);
  explanation.last = last_entries(trace, flows, explanation.culprit, paths);
  return explanation;
}

std::vector<uint32_t> beginnings_of(const flow::Trace& trace, const flow::Flows& flows,
                                    std::span<const uint32_t> compared) {
  std::vector<uint32_t> processes;
  for (const uint32_t flow : compared)
    processes.push_back(trace.event(flows.flows[flow].root).process);
  return processes;
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
    text += describe_differences(explanation.differences, explanation.profile, paths);
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

#include "client/cli/trace_explain.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "client/cli/trace_evidence.h"
#include "common/rpc/method.h"
#include "tracing/cause/explanation.h"

namespace kintsugi::cli {
namespace {

using anomaly::CallPaths;
using anomaly::PathTotals;
using cause::Explanation;
using cause::Finding;
using tracing::Separated;

std::string name_of(Finding finding) {
  switch (finding) {
    case Finding::kFailStop: return "fail-stop";
    case Finding::kOutlier: return "outlier";
    case Finding::kNoOutlier: return "no outlier";
    case Finding::kTooFew: break;
  }
  return "too few";
}

/// Whoever is late may do something else for that reason alone.
int order_of(const Explanation& explanation) {
  switch (explanation.finding) {
    case Finding::kFailStop: return 0;
    case Finding::kOutlier: break;
    case Finding::kNoOutlier: return 4;
    case Finding::kTooFew: return 5;
  }
  if (explanation.profile == anomaly::ProfileKind::kElapsed) return 1;
  return explanation.profile == anomaly::ProfileKind::kCoverage ? 2 : 3;
}

/// Seconds, of which those of who ran count twice: who runs holds up those who wait. Else how many times what is usual the score is.
double weight_of(const Explanation& explanation) {
  if (explanation.finding != Finding::kOutlier) return 0;
  const double score = explanation.ranking.scores.front().score;
  if (explanation.profile == anomaly::ProfileKind::kElapsed)
    return explanation.part == anomaly::Part::kRunning ? 2 * score : score;
  return score / std::max(explanation.ranking.threshold, 1e-9);
}

/// `culprit` is what the text calls it, and `process` where it ran.
TraceAnswer answer_of(std::string about, size_t compared, const Explanation& explanation,
                      const CallPaths& paths, const std::string& culprit, std::string process) {
  return {.about = std::move(about),
          .compared = compared,
          .finding = name_of(explanation.finding),
          .text = cause::describe(explanation, paths, culprit),
          .process = std::move(process),
          .evidence = evidence_of(explanation, paths),
          .order = order_of(explanation),
          .weight = weight_of(explanation)};
}

using Kinds = std::vector<cause::FlowsOfOneKind>;

/// Requests begin where a frame of theirs came from somebody that is not traced. Other flows are nobody's request, and those of whoever
/// traces are left out.
Kinds requests_of(const flow::Trace& trace, const flow::Flows& flows) {
  Kinds kinds = cause::kinds_of_flows(trace, flows);
  std::erase_if(kinds, [](const cause::FlowsOfOneKind& kind) {
    const auto method = rpc::method_named(kind.start);
    return !method || method == rpc::Method::kTrace;
  });
  return kinds;
}

/// Keeps of flows_by_call those that a command or a mount asked for: what servers do besides does not make a command slow.
Kinds calls_of(const flow::Trace& trace, const flow::Flows& calls) {
  Kinds kinds = requests_of(trace, calls);
  for (cause::FlowsOfOneKind& kind : kinds)
    std::erase_if(kind.flows,
                  [&](flow::FlowId id) { return calls.flows[id].reason != flow::Reason::kStart; });
  std::erase_if(kinds, [](const cause::FlowsOfOneKind& kind) { return kind.flows.empty(); });
  return kinds;
}

bool has_clients(const flow::Trace& trace) {
  return std::ranges::any_of(trace.processes(), tracing::is_client);
}

/// Returns one kind with a flow for each command, or none.
Kinds commands_of(const flow::Trace& trace, const flow::Flows& flows) {
  std::map<uint32_t, std::map<flow::FlowId, size_t>> events;
  for (flow::EventId id = 0; id < trace.size(); ++id)
    if (const uint32_t process = trace.event(id).process;
        trace.processes()[process].binary == tracing::kCommand)
      ++events[process][flows.of[id]];
  Kinds kinds;
  for (const auto& [process, of_flow] : events) {
    if (kinds.empty()) kinds.push_back({.start = tracing::kCommand});
    kinds[0].flows.push_back(
        std::ranges::max_element(of_flow, {}, [](const auto& flow) { return flow.second; })->first);
  }
  return kinds;
}

/// Holds what was recorded at one time, and tells which of its flows are compared.
struct Recorded {
  const flow::Trace& trace;
  const flow::Flows& flows;
  Kinds kinds;
};

/// Walks over each flow once, whatever the number of kinds.
struct Requests {
  Requests(const Recorded& its_recorded, CallPaths& paths)
      : recorded(its_recorded),
        totals(anomaly::totals_of(recorded.trace, anomaly::groups_by_flow(recorded.flows), paths)) {}

  std::vector<PathTotals> of(const std::string& start) const {
    std::vector<PathTotals> found;
    for (const cause::FlowsOfOneKind& kind : recorded.kinds)
      if (kind.start == start)
        for (const flow::FlowId flow : kind.flows)
          found.push_back(totals[flow]);
    return found;
  }

  std::vector<std::vector<PathTotals>> by_kind() const {
    std::vector<std::vector<PathTotals>> all;
    for (const cause::FlowsOfOneKind& kind : recorded.kinds)
      all.push_back(of(kind.start));
    return all;
  }

  const Recorded& recorded;
  const std::vector<PathTotals> totals;  ///< by flow
};

int64_t beginning_of(const flow::Trace& trace) {
  int64_t began_ns = std::numeric_limits<int64_t>::max();
  for (const flow::Event& event : trace.events())
    began_ns = std::min(began_ns, event.time_ns);
  return began_ns;
}

const flow::Event& root_of(const Recorded& recorded, const Explanation& explanation) {
  return recorded.trace.event(recorded.flows.flows[explanation.culprit].root);
}

std::string process_of(const Recorded& recorded, const Explanation& explanation) {
  if (explanation.culprit == flow::kNone) return "";
  return recorded.trace.processes()[root_of(recorded, explanation).process].name;
}

std::string call_it(const Recorded& recorded, const Explanation& explanation, const std::string& start,
                    int64_t began_ns) {
  if (explanation.culprit == flow::kNone) return start;
  const flow::Event& root = root_of(recorded, explanation);
  const std::string process = process_of(recorded, explanation);
  if (start == tracing::kCommand)
    return fmt::format("The command {} (flow {})", process, explanation.culprit);
  return fmt::format("The {} that came {:.3f} ms after the beginning to {} (flow {})", start,
                     static_cast<double>(root.time_ns - began_ns) / 1e6, process, explanation.culprit);
}

Status explain_kinds(const Recorded& odd, const Recorded* normal, const anomaly::WaitNames& waits,
                     double least_seconds, std::vector<TraceAnswer>& answers) {
  CallPaths paths;
  const Requests requests(odd, paths);
  std::optional<Requests> well;
  std::optional<cause::KnownNormal> chance;
  if (normal != nullptr) {
    well.emplace(*normal, paths);
    chance.emplace(well->by_kind(), paths, waits, least_seconds);
    for (const cause::FlowsOfOneKind& kind : odd.kinds)
      KINTSUGI_TRY(chance->look_at(requests.of(kind.start),
                                   cause::beginnings_of(odd.trace, odd.flows, kind.flows),
                                   well->of(kind.start)));
  }
  const int64_t began_ns = beginning_of(odd.trace);
  const std::vector<anomaly::Waiting> waiting = anomaly::waiting_of(paths, waits);
  for (const cause::FlowsOfOneKind& kind : odd.kinds) {
    const std::vector<PathTotals> known = well ? well->of(kind.start) : std::vector<PathTotals>();
    KINTSUGI_ASSIGN(const Explanation explanation,
                    cause::explain_flows(odd.trace, odd.flows, paths,
                                         {.compared = kind.flows,
                                          .normal = known,
                                          .totals = requests.totals,
                                          .waiting = waiting,
                                          .known = chance ? &*chance : nullptr}));
    answers.push_back(answer_of(kind.start, kind.flows.size(), explanation, paths,
                                call_it(odd, explanation, kind.start, began_ns),
                                process_of(odd, explanation)));
  }
  return {};
}

/// Compares requests, of commands if there are some, and then commands as wholes.
Status explain_requests(const Separated& separated, const NormalRuns& normal,
                        std::vector<TraceAnswer>& answers) {
  std::optional<flow::Flows> calls, normal_calls;
  const auto requests = [](const Separated& one, std::optional<flow::Flows>& by_call) {
    if (!has_clients(one.trace)) return Recorded{one.trace, one.flows, requests_of(one.trace, one.flows)};
    by_call = tracing::flows_by_call(one.trace, one.settings);
    return Recorded{one.trace, *by_call, calls_of(one.trace, *by_call)};
  };
  const auto commands = [](const Separated& one) {
    return Recorded{one.trace, one.flows, commands_of(one.trace, one.flows)};
  };
  std::optional<Recorded> well;
  if (normal.traces != nullptr) well.emplace(requests(*normal.traces, normal_calls));
  const anomaly::WaitNames waits = tracing::wait_names(separated.settings);
  KINTSUGI_TRY(explain_kinds(requests(separated, calls), well ? &*well : nullptr, waits, normal.least_seconds,
                             answers));
  if (!has_clients(separated.trace)) return {};
  if (normal.traces != nullptr) well.emplace(commands(*normal.traces));
  return explain_kinds(commands(separated), well ? &*well : nullptr, waits, normal.least_seconds, answers);
}

std::map<std::string, std::vector<uint32_t>> processes_by_binary(const flow::Trace& trace) {
  std::map<std::string, std::vector<uint32_t>> by_binary;
  for (uint32_t i = 0; i < trace.processes().size(); ++i)
    by_binary[trace.processes()[i].binary].push_back(i);
  return by_binary;
}

std::vector<PathTotals> totals_of_daemons(const flow::Trace& trace, CallPaths& paths) {
  return anomaly::totals_of(trace, anomaly::groups_by_process(trace), paths);
}

/// Asks about processes of one binary. `normal`: null, or runs that were well.
Result<Explanation> explain_binary(const Separated& separated, const NormalRuns& normal,
                                   const std::string& binary, std::span<const uint32_t> compared,
                                   CallPaths& paths) {
  const std::vector<PathTotals> totals = totals_of_daemons(separated.trace, paths);
  std::vector<PathTotals> well;
  if (normal.traces != nullptr) {
    const std::vector<PathTotals> all = totals_of_daemons(normal.traces->trace, paths);
    for (uint32_t i = 0; i < all.size(); ++i)
      if (normal.traces->trace.processes()[i].binary == binary) well.push_back(all[i]);
  }
  const anomaly::WaitNames waits = tracing::wait_names(separated.settings);
  cause::KnownNormal chance({well}, paths, waits, normal.least_seconds);
  cause::ExplanationSettings settings;
  settings.idle = waits.waits;
  return cause::explain_processes(separated.trace, paths,
                                  {.compared = compared,
                                   .normal = well,
                                   .totals = totals,
                                   .waiting = chance.waiting(),
                                   .known = well.empty() ? nullptr : &chance},
                                  settings);
}

Status explain_daemons(const Separated& separated, const NormalRuns& normal,
                       std::vector<TraceAnswer>& answers) {
  const std::vector<flow::Process>& processes = separated.trace.processes();
  for (const auto& [binary, of_binary] : processes_by_binary(separated.trace)) {
    if (of_binary.size() < anomaly::OutlierSettings().least_trials) continue;
    CallPaths paths;
    KINTSUGI_ASSIGN(const Explanation explanation,
                    explain_binary(separated, normal, binary, of_binary, paths));
    const std::string process = explanation.culprit == flow::kNone ? "" : processes[explanation.culprit].name;
    answers.push_back(
        answer_of(binary, of_binary.size(), explanation, paths, process.empty() ? binary : process, process));
  }
  return {};
}

}  // namespace

Result<std::vector<TraceAnswer>> explain_traces(const Separated& separated, const NormalRuns& normal) {
  std::vector<TraceAnswer> answers;
  KINTSUGI_TRY(explain_requests(separated, normal, answers));
  KINTSUGI_TRY(explain_daemons(separated, normal, answers));
  std::ranges::stable_sort(answers, [](const TraceAnswer& a, const TraceAnswer& b) {
    return std::pair(a.order, -a.weight) < std::pair(b.order, -b.weight);
  });
  return answers;
}

Json to_json(const std::vector<TraceAnswer>& answers) {
  Json all = Json::array();
  for (const TraceAnswer& answer : answers)
    all.push_back({{"about", answer.about},
                   {"compared", answer.compared},
                   {"finding", answer.finding},
                   {"text", answer.text},
                   {"process", answer.process},
                   {"evidence", answer.evidence}});
  return {{"answers", std::move(all)}};
}

}  // namespace kintsugi::cli

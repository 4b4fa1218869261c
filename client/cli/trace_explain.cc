#include "client/cli/trace_explain.h"

#include <map>
#include <optional>

#include <fmt/format.h>

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

TraceAnswer answer_of(std::string about, size_t compared, const Explanation& explanation,
                      const CallPaths& paths, const std::string& culprit) {
  return {std::move(about), compared, name_of(explanation.finding),
          cause::describe(explanation, paths, culprit)};
}

/// Requests begin where a frame of theirs came from somebody that is not traced. Other flows are nobody's request, and whoever traces
/// is none to compare.
std::vector<cause::FlowsOfOneKind> requests_of(const Separated& separated) {
  std::vector<cause::FlowsOfOneKind> kinds = cause::kinds_of_flows(separated.trace, separated.flows);
  std::erase_if(kinds, [](const cause::FlowsOfOneKind& kind) {
    const auto method = rpc::method_named(kind.start);
    return !method || method == rpc::Method::kTrace;
  });
  return kinds;
}

/// Holds what was recorded at one time. One walk over it answers the questions about all methods.
struct Requests {
  Requests(const Separated& separated, CallPaths& paths)
      : kinds(requests_of(separated)),
        totals(anomaly::totals_of(separated.trace, anomaly::groups_by_flow(separated.flows), paths)) {}

  std::vector<PathTotals> of(const std::string& method) const {
    std::vector<PathTotals> found;
    for (const cause::FlowsOfOneKind& kind : kinds)
      if (kind.start == method)
        for (const flow::FlowId flow : kind.flows)
          found.push_back(totals[flow]);
    return found;
  }

  std::vector<cause::FlowsOfOneKind> kinds;
  std::vector<PathTotals> totals;  ///< by flow
};

int64_t beginning_of(const flow::Trace& trace) {
  int64_t began_ns = std::numeric_limits<int64_t>::max();
  for (const flow::Event& event : trace.events())
    began_ns = std::min(began_ns, event.time_ns);
  return began_ns;
}

std::string call_it(const Separated& separated, const Explanation& explanation, const std::string& method,
                    int64_t began_ns) {
  if (explanation.culprit == flow::kNone) return method;
  const flow::Event& root = separated.trace.event(separated.flows.flows[explanation.culprit].root);
  return fmt::format("The {} that came {:.3f} ms after the beginning to {} (flow {})", method,
                     static_cast<double>(root.time_ns - began_ns) / 1e6,
                     separated.trace.processes()[root.process].name, explanation.culprit);
}

Status explain_requests(const Separated& separated, const Separated* normal,
                        std::vector<TraceAnswer>& answers) {
  CallPaths paths;
  const Requests requests(separated, paths);
  std::optional<Requests> well;
  if (normal != nullptr) well.emplace(*normal, paths);
  const int64_t began_ns = beginning_of(separated.trace);
  for (const cause::FlowsOfOneKind& kind : requests.kinds) {
    const std::vector<PathTotals> known = well ? well->of(kind.start) : std::vector<PathTotals>();
    KINTSUGI_ASSIGN(
        const Explanation explanation,
        cause::explain_flows(separated.trace, separated.flows, paths,
                             {.compared = kind.flows, .normal = known, .totals = requests.totals}));
    answers.push_back(answer_of(kind.start, kind.flows.size(), explanation, paths,
                                call_it(separated, explanation, kind.start, began_ns)));
  }
  return {};
}

Status explain_daemons(const Separated& separated, std::vector<TraceAnswer>& answers) {
  std::map<std::string, std::vector<uint32_t>> by_binary;
  const std::vector<flow::Process>& processes = separated.trace.processes();
  for (uint32_t i = 0; i < processes.size(); ++i)
    by_binary[processes[i].binary].push_back(i);
  for (const auto& [binary, of_binary] : by_binary) {
    if (of_binary.size() < anomaly::OutlierSettings().least_trials) continue;
    CallPaths paths;
    KINTSUGI_ASSIGN(const Explanation explanation,
                    cause::explain_processes(separated.trace, paths, {.compared = of_binary}));
    const std::string culprit =
        explanation.culprit == flow::kNone ? binary : processes[explanation.culprit].name;
    answers.push_back(answer_of(binary, of_binary.size(), explanation, paths, culprit));
  }
  return {};
}

}  // namespace

Result<std::vector<TraceAnswer>> explain_traces(const Separated& separated, const Separated* normal) {
  std::vector<TraceAnswer> answers;
  KINTSUGI_TRY(explain_requests(separated, normal, answers));
  KINTSUGI_TRY(explain_daemons(separated, answers));
  return answers;
}

Json to_json(const std::vector<TraceAnswer>& answers) {
  Json all = Json::array();
  for (const TraceAnswer& answer : answers)
    all.push_back({{"about", answer.about},
                   {"compared", answer.compared},
                   {"finding", answer.finding},
                   {"text", answer.text}});
  return {{"answers", std::move(all)}};
}

}  // namespace kintsugi::cli

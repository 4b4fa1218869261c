#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "monitoring/judging/activity_logs.h"
#include "monitoring/judging/findings.h"
#include "monitoring/metrics/blacksheep/resource.h"
#include "monitoring/metrics/blacksheep/unexplained.h"
#include "monitoring/metrics/trace/coarser.h"

namespace kintsugi::judging {
namespace {

using blacksheep::Tells;
using blacksheep::Unexplained;
using metric_trace::Lack;
using metric_trace::NotEnough;
using metric_trace::Series;
using metric_trace::Trace;

/// Processes of one role that have a log, in the same order.
struct Processes {
  std::vector<Series> series;
  std::vector<blacksheep::States> states;

  std::vector<blacksheep::Work> work(const std::vector<int64_t>& begins_ns,
                                     const std::vector<std::string>& state_names,
                                     const std::vector<std::string>& metrics) const {
    std::vector<blacksheep::Work> out;
    for (size_t i = 0; i < series.size(); ++i)
      out.push_back(blacksheep::work_of(series[i], states[i], begins_ns, state_names, metrics));
    return out;
  }
};

/// By role. Says of whom there is no log, unless nobody asks.
std::map<std::string, Processes> processes_of(const Trace& trace, const std::string& logs, Findings* said) {
  std::map<std::string, Processes> out;
  for (uint32_t i = 0; i < trace.header.sources.size(); ++i) {
    const std::string& source = trace.header.sources[i].name;
    auto states = states_of(logs, source);
    if (!states) {
      if (said != nullptr) said->not_judged(source, states.error().message());
      continue;
    }
    Processes& role = out[metric_trace::role_of(source)];
    role.series.push_back(metric_trace::series_of(trace, i));
    role.states.push_back(std::move(*states));
  }
  return out;
}

struct Role {
  std::vector<std::string> states, metrics;
  metric_trace::Answer<blacksheep::Usual> usual =
      NotEnough{Lack::kHealthyPast, 0, blacksheep::kFewestWindows};
};

Role learn(const Processes& healthy) {
  Role out;
  std::set<std::string> states;
  for (const blacksheep::States& each : healthy.states)
    states.insert(each.names.begin(), each.names.end());
  out.states.assign(states.begin(), states.end());
  out.metrics = blacksheep::explained_metrics(healthy.series.front().names);
  const auto begins_ns = blacksheep::window_begins(healthy.series);
  out.usual =
      blacksheep::Usual::learn(healthy.work(begins_ns, out.states, out.metrics), out.states, out.metrics);
  return out;
}

constexpr const char* name_of(Tells tells) {
  switch (tells) {
    case Tells::kMoreWork: return "machine";
    case Tells::kLessWork: return "none";
    case Tells::kOpen: return "state";
  }
  return "";
}

std::string sentence_of(const Unexplained& found) {
  switch (found.tells) {
    case Tells::kMoreWork:
      return fmt::format(
          "does work that its log does not tell of ({}): {} is {:.4g} a second where the log explains {:.4g}",
          blacksheep::name_of(blacksheep::resource_of(found.name)), found.name, found.actual,
          found.explained);
    case Tells::kLessWork:
      return fmt::format(
          "does less than a process that is asked for nothing: {} is {:.4g} a second where the log explains "
          "{:.4g}",
          found.name, found.actual, found.explained);
    case Tells::kOpen:
      return fmt::format(
          "has {:.2f} executions of {} open where its work explains {:.2f}: they hang, are slow, or wait for "
          "another process",
          found.actual, found.name, found.explained);
  }
  return "";
}

void add(Findings& out, const std::string& source, const Unexplained& found) {
  out.odd = out.odd || found.accused;
  out.lines.push_back(fmt::format("{}{}: {}; from {} to {}, {:.1f} times as far off as healthy times are",
                                  found.accused ? "" : "also changed, maybe by that: ", source,
                                  sentence_of(found), time_of(found.begin_ns), time_of(found.end_ns),
                                  found.excess));
  const bool open = found.tells == Tells::kOpen;
  out.found.push_back({{"server", source},
                       {"accused", found.accused},
                       {"t_ns", found.end_ns},
                       {"from_ns", found.begin_ns},
                       {"to_ns", found.end_ns},
                       {"alone", name_of(found.tells)},
                       {"name", found.name},
                       {"actual", found.actual},
                       {"explained", found.explained},
                       {"excess", found.excess}});
  if (open)
    out.found.back()["region"] = found.name;
  else
    out.found.back()["resource"] = blacksheep::name_of(blacksheep::resource_of(found.name));
}

/// A window is known for all metrics or for none. A process without one known window cannot be judged.
bool any_known(const blacksheep::Work& work) {
  for (const auto& row : work.done.rowwise())
    if (row.allFinite()) return true;
  return false;
}

NotEnough lack_of(const Series& unknown) {
  const auto need = static_cast<size_t>(blacksheep::kWindow / unknown.period);
  return unknown.rows() < need ? NotEnough{Lack::kSamples, unknown.rows(), need}
                               : NotEnough{Lack::kKnownValues};
}

void judge_role(Findings& out, const Processes& now, const Role& role) {
  if (!role.usual) {
    for (const Series& each : now.series)
      out.not_judged(each.source, role.usual.error().to_string());
    return;
  }
  const auto work = now.work(blacksheep::window_begins(now.series), role.states, role.metrics);
  for (const Unexplained& found : role.usual->judge(work))
    add(out, now.series[found.process].source, found);
  if (work.size() <= blacksheep::kPeersNeeded)
    for (const Series& each : now.series)
      out.not_judged(each.source,
                     NotEnough{Lack::kPeers, work.size(), blacksheep::kPeersNeeded + 1}.to_string());
  for (size_t i = 0; work.size() > blacksheep::kPeersNeeded && i < work.size(); ++i)
    if (!any_known(work[i])) out.not_judged(now.series[i].source, lack_of(now.series[i]).to_string());
}

}  // namespace

Result<Findings> by_blacksheep(const Recordings& recordings) {
  if (const Status status = check_logs(recordings); !status.ok()) return status;
  Findings out;
  const auto healthy = processes_of(recordings.healthy, recordings.healthy_logs, nullptr);
  for (const auto& [name, now] : processes_of(recordings.now, recordings.logs, &out)) {
    const auto before = healthy.find(name);
    judge_role(out, now, before == healthy.end() ? Role() : learn(before->second));
  }
  return out;
}

}  // namespace kintsugi::judging

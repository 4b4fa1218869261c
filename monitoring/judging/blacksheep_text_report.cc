#include <algorithm>
#include <chrono>
#include <map>

#include "monitoring/judging/activity_logs.h"
#include "monitoring/judging/findings.h"
#include "monitoring/metrics/blacksheep/parting.h"
#include "monitoring/metrics/trace/coarser.h"

namespace kintsugi::judging {
namespace {

using metric_trace::Answer;
using metric_trace::Series;

/// The healthy time of each process is cut into runs of this length.
constexpr std::chrono::seconds kRun{120};

/// The runs, the profile and the healthy counts that all processes of one role share.
struct Learnt {
  std::vector<blacksheep::Run> runs;
  Answer<blacksheep::Profile> profile = metric_trace::NotEnough{};
  Answer<blacksheep::HealthyCounts> counts = metric_trace::NotEnough{};
};

/// Runs that the pairs are chosen by are not those whose counts are healthy: pairs agree best where they were chosen.
void learn(Learnt& role, const std::string& name) {
  blacksheep::give_all_states(role.runs);
  std::vector<blacksheep::Run> chosen_by, counted;
  for (size_t i = 0; i < role.runs.size(); ++i)
    (i % 2 == 0 ? chosen_by : counted).push_back(std::move(role.runs[i]));
  role.runs.clear();
  role.profile = blacksheep::learn(name, chosen_by);
  if (role.profile) role.counts = blacksheep::count_healthy(*role.profile, counted);
}

std::map<std::string, Learnt> learnt_of(const Recordings& recordings) {
  std::map<std::string, Learnt> out;
  for (uint32_t i = 0; i < recordings.healthy.header.sources.size(); ++i) {
    const auto states = states_of(recordings.healthy_logs, recordings.healthy.header.sources[i].name);
    if (!states) continue;
    const Series series =
        metric_trace::averaged_to(metric_trace::series_of(recordings.healthy, i), kLogPeriod);
    for (const Series& part : metric_trace::stretches(series, kRun))
      if (auto run = blacksheep::run_of(part, *states))
        out[metric_trace::role_of(series.source)].runs.push_back(std::move(*run));
  }
  for (auto& [name, role] : out)
    learn(role, name);
  return out;
}

void add(Findings& out, const std::string& source, const blacksheep::Parting& parting) {
  out.odd = true;
  const bool state = parting.culprit.direction == blacksheep::Direction::kStateAlone;
  out.lines.push_back(fmt::format(
      "{}: {} changes {} from {} to {}: {:.2f} where healthy times have {:.2f} at most ({}, {})", source,
      parting.culprit.name, state ? "in the log and not in the machine" : "in the machine and not in the log",
      time_of(parting.begin_ns), time_of(parting.end_ns), parting.count, parting.healthy_count, parting.state,
      blacksheep::name_of(parting.resource)));
  out.found.push_back({{"server", source},
                       {"t_ns", parting.end_ns},
                       {"from_ns", parting.begin_ns},
                       {"to_ns", parting.end_ns},
                       {"alone", state ? "state" : "metric"},
                       {"name", parting.culprit.name},
                       {"region", parting.state},
                       {"resource", blacksheep::name_of(parting.resource)},
                       {"count", parting.count},
                       {"healthy", parting.healthy_count},
                       {"excess", parting.count / std::max(parting.healthy_count, 1e-3)}});
}

void judge_process(Findings& out, const Series& series, const std::map<std::string, Learnt>& roles,
                   const std::string& logs) {
  const auto states = states_of(logs, series.source);
  if (!states) return out.not_judged(series.source, states.error().message());
  const auto role = roles.find(metric_trace::role_of(series.source));
  if (role == roles.end()) return out.not_judged(series.source, "no healthy time of its role has a log");
  if (!role->second.profile) return out.not_judged(series.source, role->second.profile.error().to_string());
  if (!role->second.counts) return out.not_judged(series.source, role->second.counts.error().to_string());
  const auto run = blacksheep::run_of(metric_trace::averaged_to(series, kLogPeriod), *states);
  if (!run) return out.not_judged(series.source, run.error().to_string());
  for (const blacksheep::Parting& each :
       blacksheep::partings(*role->second.profile, *role->second.counts, *run))
    add(out, series.source, each);
}

}  // namespace

Result<Findings> by_blacksheep_text(const Recordings& recordings) {
  if (const Status status = check_logs(recordings); !status.ok()) return status;
  Findings out;
  const auto roles = learnt_of(recordings);
  for (uint32_t i = 0; i < recordings.now.header.sources.size(); ++i)
    judge_process(out, metric_trace::series_of(recordings.now, i), roles, recordings.logs);
  return out;
}

}  // namespace kintsugi::judging

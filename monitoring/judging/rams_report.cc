#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "common/base/statistics.h"
#include "monitoring/judging/findings.h"
#include "monitoring/metrics/rams/beside_peers.h"
#include "monitoring/metrics/rams/detector.h"
#include "monitoring/metrics/rams/faithful.h"
#include "monitoring/metrics/trace/coarser.h"

namespace kintsugi::judging {
namespace {

using metric_trace::Series;

/// The detector's windows are numbers of samples of this length.
constexpr std::chrono::seconds kScoredPeriod{1};
/// Of times that the kernel counts in ticks. The text's ten seconds would see nothing that is shorter than ten minutes.
constexpr std::chrono::seconds kTickPeriod{2};
/// The healthy time of each process is cut into runs of this length.
constexpr std::chrono::seconds kCalibrationRun{240};
/// Windows of the text's form with a p below this accuse.
constexpr double kSmallP = 0.01;

metric_trace::Answer<rams::Inputs> inputs_of(const Series& series) {
  return rams::inputs_of(metric_trace::averaged_to(series, kScoredPeriod),
                         {.perf = true, .proc_period = kTickPeriod});
}

/// Of each role that has enough healthy runs: what is healthy there.
std::map<std::string, metric_trace::Answer<rams::Calibration>> calibrations(
    const metric_trace::Trace& healthy) {
  std::map<std::string, std::vector<rams::Inputs>> runs;
  for (uint32_t i = 0; i < healthy.header.sources.size(); ++i)
    for (const Series& run : metric_trace::stretches(metric_trace::series_of(healthy, i), kCalibrationRun))
      if (auto inputs = inputs_of(run)) runs[metric_trace::role_of(run.source)].push_back(std::move(*inputs));
  std::map<std::string, metric_trace::Answer<rams::Calibration>> out;
  for (const auto& [role, inputs] : runs)
    out.emplace(role, rams::calibrate(role, inputs));
  return out;
}

constexpr const char* name_of(rams::Score score) {
  switch (score) {
    case rams::Score::kSerial: return "its residuals follow one another";
    case rams::Score::kFrozenLine: return "it left the line of its healthy past";
    case rams::Score::kBreak: return "it follows two lines";
  }
  return "";
}

constexpr const char* field_of(rams::Score score) {
  switch (score) {
    case rams::Score::kSerial: return "serial";
    case rams::Score::kFrozenLine: return "line";
    case rams::Score::kBreak: return "break";
  }
  return "";
}

void add_alarm(Findings& out, const std::string& source, const rams::Calibration& calibration,
               const rams::Alarm& alarm) {
  out.odd = true;
  const rams::ScoreKey& key = alarm.score.key;
  out.lines.push_back(fmt::format(
      "{} {}: sick by {}: {}; higher than {:.1f} % of {} healthy values, {:.2f} where healthy runs stay "
      "below {:.2f} ({})",
      time_of(alarm.since_ns), source, key.channel, name_of(key.score), 100 * alarm.score.quantile,
      alarm.score.reference_values, alarm.score.surprise, alarm.threshold,
      calibration.origin == rams::Origin::kPerf ? "samples of perf" : "times of /proc"));
  out.found.push_back({{"server", source},
                       {"t_ns", alarm.since_ns},
                       {"state", "sick"},
                       {"metric", key.channel},
                       {"score", field_of(key.score)},
                       {"excess", alarm.score.surprise / std::max(alarm.threshold, 1e-3)},
                       {"quantile", alarm.score.quantile},
                       {"healthy_runs", calibration.runs}});
}

/// One finding for each alarm and each time that the process had work and did not run.
void judge_process(Findings& out, const rams::Inputs& inputs, const rams::Calibration& calibration) {
  std::optional<int64_t> standing;
  rams::State before = rams::State::kNoAnswer;
  std::optional<metric_trace::NotEnough> lack;
  bool judged = false;
  for (const rams::Verdict& verdict : rams::judge(inputs, calibration)) {
    judged = judged || !verdict.lack;
    lack = verdict.lack ? verdict.lack : lack;
    if (verdict.alarm && standing != verdict.alarm->since_ns) {
      standing = verdict.alarm->since_ns;
      add_alarm(out, inputs.source, calibration, *verdict.alarm);
    }
    if (verdict.state == rams::State::kBlocked && before != rams::State::kBlocked) {
      out.lines.push_back(
          fmt::format("{} {}: has work open and does not run: a matter of the detector of hangs",
                      time_of(verdict.t_ns), inputs.source));
      out.found.push_back({{"server", inputs.source}, {"t_ns", verdict.t_ns}, {"state", "blocked"}});
    }
    before = verdict.state;
  }
  if (!judged)
    out.not_judged(
        inputs.source,
        lack.value_or(metric_trace::NotEnough{metric_trace::Lack::kSamples, inputs.rows(), 60}).to_string());
}

/// The text's windows of one process, of all channels that stand for its work in the system.
void judge_as_text(Findings& out, const rams::Inputs& inputs) {
  std::vector<double> breusch_godfrey, durbin_watson;
  for (const rams::FaithfulWindow& window : rams::faithful_windows(inputs, 0)) {
    breusch_godfrey.push_back(window.breusch_godfrey.p);
    durbin_watson.push_back(window.durbin_watson.p_normal);
  }
  if (breusch_godfrey.empty()) {
    out.not_judged(inputs.source,
                   metric_trace::NotEnough{metric_trace::Lack::kSamples, inputs.rows(), 60}.to_string());
    return;
  }
  const double p = median_of(breusch_godfrey), p_durbin_watson = median_of(durbin_watson);
  const bool accused = p < kSmallP;
  out.odd = out.odd || accused;
  out.lines.push_back(fmt::format(
      "{}: {} by {} on {}: p {:.2g} (Breusch-Godfrey), {:.2g} (Durbin-Watson), medians of {} windows",
      inputs.source, accused ? "a culprit" : "none", inputs.channels.front(), inputs.app_name, p,
      p_durbin_watson, breusch_godfrey.size()));
  out.found.push_back({{"server", inputs.source},
                       {"state", accused ? "sick" : "healthy"},
                       {"metric", inputs.channels.front()},
                       {"p", p},
                       {"p_durbin_watson", p_durbin_watson},
                       {"windows", breusch_godfrey.size()}});
}

/// Processes of a role, then and now, in the same order.
struct OfRole {
  std::vector<rams::Inputs> healthy, now;
};

std::map<std::string, OfRole> roles_of(const Recordings& recordings) {
  std::map<std::string, OfRole> out;
  for (uint32_t i = 0; i < recordings.now.header.sources.size(); ++i) {
    const std::string& source = recordings.now.header.sources[i].name;
    const auto before = metric_trace::find_source(recordings.healthy.header, source);
    if (!before) continue;
    auto healthy = inputs_of(metric_trace::series_of(recordings.healthy, *before));
    auto now = inputs_of(metric_trace::series_of(recordings.now, i));
    if (!healthy || !now || healthy->channels != now->channels) continue;
    OfRole& role = out[metric_trace::role_of(source)];
    role.healthy.push_back(std::move(*healthy));
    role.now.push_back(std::move(*now));
  }
  return out;
}

/// Those of a role that can be compared with enough others; returns their names.
std::set<std::string> judge_beside_peers(Findings& out, const OfRole& role) {
  const rams::BesidePeers found = rams::parted_from_peers(role.healthy, role.now);
  for (const rams::Parted& parted : found.parted) {
    const rams::Inputs& inputs = role.now[parted.process];
    out.odd = true;
    out.lines.push_back(fmt::format(
        "{} {}: sick by {}: it left the line of its own work by {:.1f} deviations, and its peers did not",
        time_of(parted.t_ns), inputs.source, parted.channel, parted.size));
    out.found.push_back({{"server", inputs.source},
                         {"t_ns", parted.t_ns},
                         {"state", "sick"},
                         {"metric", parted.channel},
                         {"score", "peers"},
                         {"excess", parted.excess}});
  }
  std::set<std::string> judged;
  for (size_t i = 0; i < role.now.size(); ++i)
    if (found.compared[i]) judged.insert(role.now[i].source);
  return judged;
}

}  // namespace

Result<Findings> by_rams(const Recordings& recordings) {
  Findings out;
  std::set<std::string> judged;
  for (const auto& [role, processes] : roles_of(recordings))
    judged.merge(judge_beside_peers(out, processes));
  const auto healthy = calibrations(recordings.healthy);
  for (uint32_t i = 0; i < recordings.now.header.sources.size(); ++i) {
    const std::string& source = recordings.now.header.sources[i].name;
    if (judged.contains(source)) continue;
    const auto inputs = inputs_of(metric_trace::series_of(recordings.now, i));
    const auto calibration = healthy.find(metric_trace::role_of(source));
    if (!inputs)
      out.not_judged(source, inputs.error().to_string());
    else if (calibration == healthy.end())
      out.not_judged(
          source,
          metric_trace::NotEnough{metric_trace::Lack::kHealthyReference, 0, rams::kFewestRuns}.to_string());
    else if (!calibration->second)
      out.not_judged(source, calibration->second.error().to_string());
    else
      judge_process(out, *inputs, *calibration->second);
  }
  return out;
}

Result<Findings> by_rams_text(const Recordings& recordings) {
  Findings out;
  for (uint32_t i = 0; i < recordings.now.header.sources.size(); ++i) {
    const auto inputs = inputs_of(metric_trace::series_of(recordings.now, i));
    if (inputs)
      judge_as_text(out, *inputs);
    else
      out.not_judged(recordings.now.header.sources[i].name, inputs.error().to_string());
  }
  return out;
}

}  // namespace kintsugi::judging

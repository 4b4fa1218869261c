#include "monitoring/judging/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "common/proto/verdicts.h"
#include "monitoring/judging/findings.h"
#include "monitoring/metrics/augury/augury.h"
#include "monitoring/metrics/augury/leaks.h"
#include "monitoring/metrics/augury/running_out.h"
#include "monitoring/metrics/orion/as_printed.h"

namespace kintsugi::judging {
namespace {

using Document = nlohmann::ordered_json;
using metric_trace::Series;
using metric_trace::Trace;

std::string also(const std::vector<std::string>& aliases) {
  return aliases.empty() ? "" : fmt::format(" (and {}, which move with it)", fmt::join(aliases, ", "));
}

Document json_of(const orion::DearerRegion& region) {
  return {{"region", region.name},
          {"aliases", region.aliases},
          {"each", region.each},
          {"before", region.before},
          {"part", region.part}};
}

void add(Findings& report, const orion::OddMetric& metric, Document& json) {
  report.lines.push_back(fmt::format("  {}{}: {:.6g} then, {:.6g} now{}", metric.name, also(metric.aliases),
                                     metric.healthy, metric.now,
                                     metric.runs_out ? ", and goes towards its limit" : ""));
  json = {{"name", metric.name},         {"aliases", metric.aliases}, {"score", metric.score},
          {"runs_out", metric.runs_out}, {"healthy", metric.healthy}, {"now", metric.now},
          {"dearer", Document::array()}};
  for (const orion::DearerRegion& region : metric.dearer) {
    report.lines.push_back("    " + orion::describe(region));
    json["dearer"].push_back(json_of(region));
  }
}

void add(Findings& report, const orion::Finding& finding, bool accused) {
  report.odd |= accused;
  report.lines.push_back(fmt::format(
      "{}: {} from {} to {}, {:.1f} times what healthy times show", finding.source,
      accused ? "unlike the healthy time" : "changed, but has too few peers to tell whether that is a fault:",
      time_of(finding.from_ns), time_of(finding.to_ns), finding.excess));
  Document json{{"server", finding.source},     {"accused", accused},
                {"excess", finding.excess},     {"peers", finding.peers},
                {"from_ns", finding.from_ns},   {"to_ns", finding.to_ns},
                {"windows", finding.windows},   {"healthy_windows", finding.healthy_windows},
                {"load", finding.load},         {"foreign_load", finding.foreign_load},
                {"metrics", Document::array()}, {"regions", Document::array()},
                {"look_at", Document::array()}, {"stuck", Document::array()}};
  for (const orion::StuckRegion& region : finding.stuck) {
    report.lines.push_back(
        fmt::format("  nothing ends in {}: open for {:.3g} s, where healthy times have {:.3g} s at most",
                    region.name, region.seconds, region.healthy_seconds));
    json["stuck"].push_back(
        {{"region", region.name}, {"seconds", region.seconds}, {"healthy_seconds", region.healthy_seconds}});
  }
  for (const orion::OddMetric& metric : finding.metrics)
    add(report, metric, json["metrics"].emplace_back());
  for (const orion::OddRegion& region : finding.regions) {
    report.lines.push_back(fmt::format("  in {}: {:.1f} % of the time that regions were open, {:.1f} % then",
                                       region.name, 100 * region.share, 100 * region.healthy));
    json["regions"].push_back({{"name", region.name}, {"share", region.share}, {"healthy", region.healthy}});
  }
  for (const orion::NamedRegion& region : finding.look_at)
    json["look_at"].push_back({{"name", region.name}, {"aliases", region.aliases}});
  if (!finding.moved.empty())
    report.lines.push_back(fmt::format("  never moved before: {}", fmt::join(finding.moved, ", ")));
  json["moved"] = finding.moved;
  if (finding.foreign_load)
    report.lines.push_back(
        fmt::format("  its load is {:.1f} times what it was, which the healthy time does not know: that "
                    "alone may explain it",
                    finding.load));
  report.found.push_back(std::move(json));
}

Findings findings_of(const orion::Localisation& found) {
  Findings out;
  for (const orion::Finding& finding : found.odd)
    add(out, finding, /*accused=*/true);
  for (const orion::Finding& finding : found.also_changed)
    add(out, finding, /*accused=*/false);
  for (const orion::NotJudged& each : found.not_judged)
    out.not_judged(each.source, each.why);
  return out;
}

Findings by_orion(const Trace& healthy, const Trace& now) {
  return findings_of(orion::localise(healthy, now));
}

/// Calls `judge` for each process of `now` that the healthy trace has, too.
template <class Judge>
Findings for_each_process(const Trace& healthy, const Trace& now, const Judge& judge) {
  Findings out;
  for (uint32_t i = 0; i < now.header.sources.size(); ++i) {
    const std::string& source = now.header.sources[i].name;
    const auto before = metric_trace::find_source(healthy.header, source);
    const Status status =
        before ? judge(out, metric_trace::series_of(healthy, *before), metric_trace::series_of(now, i))
               : Status(before.error());
    if (!status.ok()) out.not_judged(source, status.message());
  }
  return out;
}

/// The text's ranking, which always names somebody.
Findings by_orion_text(const Trace& healthy, const Trace& now) {
  return for_each_process(
      healthy, now, [](Findings& out, const Series& before, const Series& series) -> Status {
        const std::vector<size_t> columns = metric_trace::prepare(before).columns();
        const auto votes =
            orion::metrics_as_printed(before, metric_trace::with_columns(series, before.names), columns);
        if (!votes) return votes.error();
        Document json{{"server", series.source}, {"metrics", Document::array()}};
        std::vector<std::string> names;
        for (const orion::Votes& each :
             std::span(*votes).first(std::min(votes->size(), orion::kMostAbnormal))) {
          names.push_back(fmt::format("{} ({} votes)", before.names[each.column], each.votes));
          json["metrics"].push_back({{"name", before.names[each.column]}, {"votes", each.votes}});
        }
        out.lines.push_back(fmt::format("{}: {}", series.source, fmt::join(names, ", ")));
        out.found.push_back(std::move(json));
        return {};
      });
}

constexpr const char* name_of(augury::Reason reason) {
  switch (reason) {
    case augury::Reason::kUnlike: return "unlike";
    case augury::Reason::kUnforeseen: return "unforeseen";
    case augury::Reason::kSilent: return "silent";
  }
  return "";
}

void add(Findings& report, const std::string& source, const augury::Alarm& alarm) {
  report.odd = true;
  std::string line = fmt::format("{} {}: ", time_of(alarm.t_ns), source);
  Document json{
      {"server", source}, {"t_ns", alarm.t_ns}, {"reason", name_of(alarm.reason)}, {"excess", alarm.excess}};
  if (alarm.reason == augury::Reason::kSilent) {
    line += "does not answer the sampler";
  } else {
    json["metric"] = alarm.metric;
    json["aliases"] = alarm.aliases;
    json["deviation"] = alarm.deviation;
    line += fmt::format(
        "{}{} is {} by {:.1f} deviations", alarm.metric, also(alarm.aliases),
        alarm.reason == augury::Reason::kUnlike ? "off what its load explains" : "not as foreseen",
        alarm.deviation);
  }
  if (alarm.trend) {
    json["rate"] = alarm.trend->rate;
    line += fmt::format(", and {} by {:.3g} a second", alarm.trend->rate > 0 ? "grows" : "falls",
                        std::abs(alarm.trend->rate));
  }
  if (alarm.exhaustion) {
    json["seconds_left"] = alarm.exhaustion->seconds_left;
    json["soonest"] = alarm.exhaustion->soonest;
    if (std::isfinite(alarm.exhaustion->latest)) json["latest"] = alarm.exhaustion->latest;
    line += fmt::format(
        "; it runs out in {} (between {} and {})", proto::time_left(alarm.exhaustion->seconds_left),
        proto::time_left(alarm.exhaustion->soonest), proto::time_left(alarm.exhaustion->latest));
  }
  report.lines.push_back(std::move(line));
  report.found.push_back(std::move(json));
}

template <bool forecast_rows>
Findings by_augury(const Trace& healthy, const Trace& now) {
  return for_each_process(
      healthy, now, [](Findings& out, const Series& before, const Series& series) -> Status {
        const auto trained = augury::Augury::learn(before, {.forecast_rows = forecast_rows});
        if (!trained) return trained.error();
        for (const augury::Alarm& alarm :
             augury::alarms_of(*trained, metric_trace::with_columns(series, before.names)))
          add(out, series.source, alarm);
        return {};
      });
}

using HealthyTimes = std::map<std::string, augury::HealthyTime>;

std::vector<const augury::HealthyTime*> peers_of(const HealthyTimes& all, const std::string& source) {
  std::vector<const augury::HealthyTime*> out;
  for (const auto& [name, healthy] : all)
    if (name != source && metric_trace::role_of(name) == metric_trace::role_of(source))
      out.push_back(&healthy);
  return out;
}

/// To what was found last.
void add_regions(Findings& out, const std::vector<orion::DearerRegion>& regions) {
  out.found.back()["grows_with"] = Document::array();
  for (const orion::DearerRegion& region : regions) {
    out.lines.push_back("  " + orion::describe(region));
    out.found.back()["grows_with"].push_back(json_of(region));
  }
}

Findings by_leaks(const Trace& healthy, const Trace& now) {
  HealthyTimes all;
  for (uint32_t i = 0; i < healthy.header.sources.size(); ++i)
    all.try_emplace(healthy.header.sources[i].name, augury::learn_usual(metric_trace::series_of(healthy, i)));
  return for_each_process(
      healthy, now, [&all](Findings& out, const Series& before, const Series& raw) -> Status {
        const Series series = metric_trace::with_columns(raw, before.names);
        const auto found = augury::leaks_of(all.at(series.source), series, peers_of(all, series.source));
        if (!found) return found.error();
        if (found->empty()) return {};
        const orion::Costs costs(before, series);
        for (const augury::Leak& leak : *found) {
          out.odd = true;
          out.lines.push_back(fmt::format(
              "{} {}: {} was {:.6g} at most, is {:.6g}, and goes to {:.6g} by {:+.3g} a second: "
              "{} are left (between {} and {})",
              time_of(leak.t_ns), series.source, leak.metric, leak.usual, leak.now, leak.limit,
              leak.exhaustion.rate, proto::time_left(leak.exhaustion.seconds_left),
              proto::time_left(leak.exhaustion.soonest), proto::time_left(leak.exhaustion.latest)));
          out.found.push_back({{"server", series.source},
                               {"t_ns", leak.t_ns},
                               {"metric", leak.metric},
                               {"excess", leak.excess},
                               {"usual", leak.usual},
                               {"now", leak.now},
                               {"limit", leak.limit},
                               {"rate", leak.exhaustion.rate},
                               {"seconds_left", leak.exhaustion.seconds_left},
                               {"soonest", leak.exhaustion.soonest}});
          const auto column = std::ranges::find(series.names, leak.metric) - series.names.begin();
          add_regions(out, costs.dearer(static_cast<size_t>(column), augury::kNamedRegions));
        }
        return {};
      });
}

/// Needs no healthy trace: what it is asked about is the whole of `now`.
Findings by_limits(const Trace&, const Trace& now) {
  Findings out;
  for (uint32_t i = 0; i < now.header.sources.size(); ++i) {
    const Series series = metric_trace::series_of(now, i);
    for (const augury::RunsOut& each : augury::running_out(series, augury::kHorizonSeconds)) {
      out.odd = true;
      out.lines.push_back(
          fmt::format("{} runs out of {} in {} (between {} and {}): {:.6g} of {:.6g}, {:+.3g} a second",
                      series.source, each.metric, proto::time_left(each.exhaustion.seconds_left),
                      proto::time_left(each.exhaustion.soonest), proto::time_left(each.exhaustion.latest),
                      each.now, each.limit, each.exhaustion.rate));
      out.found.push_back({{"server", series.source},
                           {"metric", each.metric},
                           {"now", each.now},
                           {"limit", each.limit},
                           {"rate", each.exhaustion.rate},
                           {"seconds_left", each.exhaustion.seconds_left},
                           {"soonest", each.exhaustion.soonest}});
      if (std::isfinite(each.exhaustion.latest)) out.found.back()["latest"] = each.exhaustion.latest;
      add_regions(out, each.grows_with);
    }
  }
  return out;
}

template <Findings method(const Trace&, const Trace&)>
Result<Findings> of_traces(const Recordings& recordings) {
  return method(recordings.healthy, recordings.now);
}

struct Method {
  std::string_view name;
  Result<Findings> (*judge)(const Recordings&);
  bool needs_no_healthy_time = false, reads_logs = false;
};
constexpr Method kMethods[] = {
    {"orion", of_traces<by_orion>},
    {"orion-text", of_traces<by_orion_text>},
    {"augury", of_traces<by_augury<false>>},
    {"augury-ahead", of_traces<by_augury<true>>},
    {"leaks", of_traces<by_leaks>},
    {"limits", of_traces<by_limits>, true},
    {"rams", by_rams},
    {"rams-text", by_rams_text, true},
    {"blacksheep", by_blacksheep, false, true},
    {"blacksheep-text", by_blacksheep_text, false, true},
};

constexpr const char* kNothingUnlike = "nothing is unlike the healthy time";

Report report_of(Findings found, const char* otherwise) {
  if (found.lines.empty()) found.lines.emplace_back(otherwise);
  return {.odd = found.odd,
          .lines = std::move(found.lines),
          .json = found.found.dump(-1, ' ', false, Document::error_handler_t::replace)};
}

const Method* find(std::string_view name) {
  const auto* known = std::ranges::find(kMethods, name, &Method::name);
  return known == std::end(kMethods) ? nullptr : known;
}

}  // namespace

Result<Report> judge(std::string_view name, const Recordings& recordings) {
  const Method* const method = find(name);
  if (method == nullptr)
    return Status(Code::kInvalidArgument,
                  fmt::format("there is no method '{}'; there are {}", name, fmt::join(methods(), ", ")));
  auto found = method->judge(recordings);
  if (!found) return found.error();
  return report_of(std::move(*found), name == "limits" ? "nothing runs out" : kNothingUnlike);
}

Report report_of(const orion::Localisation& found) {
  return report_of(findings_of(found), kNothingUnlike);
}

bool needs_no_healthy_time(std::string_view name) {
  const Method* const method = find(name);
  return method != nullptr && method->needs_no_healthy_time;
}

bool reads_logs(std::string_view name) {
  const Method* const method = find(name);
  return method != nullptr && method->reads_logs;
}

std::vector<std::string_view> methods() {
  std::vector<std::string_view> out;
  for (const Method& method : kMethods)
    out.push_back(method.name);
  return out;
}

Trace split(Trace& trace, double seconds) {
  Trace now{.header = trace.header, .rows = {}};
  if (trace.rows.empty()) return now;
  const int64_t from = trace.rows.back().t_ns - static_cast<int64_t>(seconds * 1e9);
  // From the back: before a clock stepped back there are later times, too.
  auto first = trace.rows.end();
  while (first != trace.rows.begin() && std::prev(first)->t_ns > from)
    --first;
  now.rows.assign(std::make_move_iterator(first), std::make_move_iterator(trace.rows.end()));
  trace.rows.erase(first, trace.rows.end());
  return now;
}

}  // namespace kintsugi::judging

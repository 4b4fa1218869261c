#include "monitoring/judge_command.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "common/config/units.h"
#include "monitoring/metrics/augury/augury.h"
#include "monitoring/metrics/augury/running_out.h"
#include "monitoring/metrics/orion/as_printed.h"
#include "monitoring/metrics/orion/orion.h"
#include "monitoring/metrics/trace/files.h"

namespace kintsugi::monitoring {
namespace {

using Document = nlohmann::ordered_json;
using metric_trace::Series;
using metric_trace::Trace;

struct Arguments {
  std::string method, healthy, trace, to_file;
  std::optional<Duration> since;
  bool json = false;
};

/// What a method found: lines for people, and the same as JSON.
struct Report {
  bool odd = false;
  std::vector<std::string> lines;
  Document json = Document::array();
};

std::string time_of(int64_t t_ns) {
  return fmt::format("{:%H:%M:%S}", fmt::localtime(static_cast<std::time_t>(t_ns / 1'000'000'000)));
}

std::string also(const std::vector<std::string>& aliases) {
  return aliases.empty() ? "" : fmt::format(" (and {}, which move with it)", fmt::join(aliases, ", "));
}

std::string time_left(double seconds) {
  if (!std::isfinite(seconds)) return "never";
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  if (seconds < 2 * 86400.0) return fmt::format("{:.0f} h", seconds / 3600);
  return fmt::format("{:.0f} days", seconds / 86400);
}

void add(Report& report, const orion::Finding& finding) {
  report.odd = true;
  report.lines.push_back(
      fmt::format("{}: unlike the healthy time from {} to {}, {:.1f} times what healthy times show",
                  finding.source, time_of(finding.from_ns), time_of(finding.to_ns), finding.excess()));
  Document json{{"server", finding.source},     {"excess", finding.excess()},
                {"from_ns", finding.from_ns},   {"to_ns", finding.to_ns},
                {"windows", finding.windows},   {"healthy_windows", finding.healthy_windows},
                {"load", finding.load},         {"foreign_load", finding.foreign_load},
                {"metrics", Document::array()}, {"regions", Document::array()}};
  for (const orion::OddMetric& metric : finding.metrics) {
    report.lines.push_back(fmt::format("  {}{}: {:.6g} then, {:.6g} now", metric.name, also(metric.aliases),
                                       metric.healthy, metric.now));
    json["metrics"].push_back({{"name", metric.name},
                               {"aliases", metric.aliases},
                               {"score", metric.score},
                               {"healthy", metric.healthy},
                               {"now", metric.now}});
  }
  for (const orion::OddRegion& region : finding.regions) {
    report.lines.push_back(fmt::format("  in {}: {:.1f} % of the time that regions were open, {:.1f} % then",
                                       region.name, 100 * region.share, 100 * region.healthy));
    json["regions"].push_back({{"name", region.name}, {"share", region.share}, {"healthy", region.healthy}});
  }
  if (finding.foreign_load)
    report.lines.push_back(
        fmt::format("  its load is {:.1f} times what it was, which the healthy time does not know: that "
                    "alone may explain it",
                    finding.load));
  report.json.push_back(std::move(json));
}

void add_not_judged(Report& report, const std::string& source, const std::string& why) {
  report.lines.push_back(fmt::format("{}: not judged: {}", source, why));
  report.json.push_back({{"server", source}, {"not_judged", why}});
}

Report by_orion(const Trace& healthy, const Trace& now) {
  Report out;
  const orion::Localisation found = orion::localise(healthy, now);
  for (const orion::Finding& finding : found.odd)
    add(out, finding);
  for (const orion::NotJudged& each : found.not_judged)
    add_not_judged(out, each.source, each.why);
  return out;
}

/// Calls `judge` for each process of `now` that the healthy trace has, too.
template <class Judge>
Report for_each_process(const Trace& healthy, const Trace& now, const Judge& judge) {
  Report out;
  for (uint32_t i = 0; i < now.header.sources.size(); ++i) {
    const std::string& source = now.header.sources[i].name;
    const auto before = metric_trace::find_source(healthy.header, source);
    const Status status =
        before ? judge(out, metric_trace::series_of(healthy, *before), metric_trace::series_of(now, i))
               : Status(before.error());
    if (!status.ok()) add_not_judged(out, source, status.message());
  }
  return out;
}

/// The text's ranking, which always names somebody.
Report by_orion_text(const Trace& healthy, const Trace& now) {
  return for_each_process(
      healthy, now, [](Report& out, const Series& before, const Series& series) -> Status {
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
        out.json.push_back(std::move(json));
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

void add(Report& report, const std::string& source, const augury::Alarm& alarm) {
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
    line += fmt::format("; it runs out in {} (between {} and {})", time_left(alarm.exhaustion->seconds_left),
                        time_left(alarm.exhaustion->soonest), time_left(alarm.exhaustion->latest));
  }
  report.lines.push_back(std::move(line));
  report.json.push_back(std::move(json));
}

template <bool forecast_rows>
Report by_augury(const Trace& healthy, const Trace& now) {
  return for_each_process(
      healthy, now, [](Report& out, const Series& before, const Series& series) -> Status {
        const auto trained = augury::Augury::learn(before, {.forecast_rows = forecast_rows});
        if (!trained) return trained.error();
        for (const augury::Alarm& alarm :
             augury::alarms_of(*trained, metric_trace::with_columns(series, before.names)))
          add(out, series.source, alarm);
        return {};
      });
}

/// Needs no healthy trace: what it is asked about is the whole of `now`.
Report by_limits(const Trace&, const Trace& now) {
  Report out;
  for (uint32_t i = 0; i < now.header.sources.size(); ++i) {
    const Series series = metric_trace::series_of(now, i);
    for (const augury::RunsOut& each : augury::running_out(series, augury::kHorizonSeconds)) {
      out.odd = true;
      out.lines.push_back(fmt::format(
          "{} runs out of {} in {} (between {} and {}): {:.6g} of {:.6g}, {:+.3g} a second", series.source,
          each.metric, time_left(each.exhaustion.seconds_left), time_left(each.exhaustion.soonest),
          time_left(each.exhaustion.latest), each.now, each.limit, each.exhaustion.rate));
      out.json.push_back({{"server", series.source},
                          {"metric", each.metric},
                          {"now", each.now},
                          {"limit", each.limit},
                          {"rate", each.exhaustion.rate},
                          {"seconds_left", each.exhaustion.seconds_left},
                          {"soonest", each.exhaustion.soonest}});
      if (std::isfinite(each.exhaustion.latest)) out.json.back()["latest"] = each.exhaustion.latest;
    }
  }
  return out;
}

using Method = Report (*)(const Trace&, const Trace&);
constexpr std::pair<std::string_view, Method> kMethods[] = {
    {"orion", by_orion},          {"orion-text", by_orion_text},
    {"augury", by_augury<false>}, {"augury-ahead", by_augury<true>},
    {"limits", by_limits},
};

int usage() {
  std::string names;
  for (const auto& [name, method] : kMethods)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  std::fprintf(
      stderr,
      "usage: kintsugi-monitor judge [--method NAME] [--json] (--healthy TRACE | --since DURATION) TRACE\n"
      "       kintsugi-monitor judge --cut FILE TRACE\n"
      "TRACE: a file, a table (.csv) or a monitor's directory, with @FROM..TO for a part (seconds since "
      "1970)\n"
      "methods: %s\n",
      names.c_str());
  return 2;
}

int fail(const Status& status) {
  std::fprintf(stderr, "kintsugi-monitor: %s\n", status.message().c_str());
  return 1;
}

/// False: not understood.
bool parse(const std::vector<std::string>& words, Arguments& out) {
  for (size_t i = 0; i < words.size(); ++i) {
    const auto value = [&] { return i + 1 < words.size() ? words[++i] : std::string(); };
    if (words[i] == "--json") {
      out.json = true;
    } else if (words[i] == "--method") {
      out.method = value();
    } else if (words[i] == "--healthy") {
      out.healthy = value();
    } else if (words[i] == "--cut") {
      out.to_file = value();
    } else if (words[i] == "--since") {
      const auto since = config::parse_duration(value());
      if (!since) return false;
      out.since = *since;
    } else if (words[i].starts_with("--") || !out.trace.empty()) {
      return false;
    } else {
      out.trace = words[i];
    }
  }
  const int purposes = !out.healthy.empty() + out.since.has_value() + !out.to_file.empty();
  return !out.trace.empty() && purposes == 1;
}

/// Nanoseconds; `otherwise` if there is no text. kInvalidArgument: it is no time.
Result<int64_t> parse_time(const std::string& text, int64_t otherwise) {
  if (text.empty()) return otherwise;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || std::abs(seconds) > 9e9)
    return Status(Code::kInvalidArgument, fmt::format("'{}' is no time: seconds since 1970 are one", text));
  return static_cast<int64_t>(seconds * 1e9);
}

/// What `name` names: PATH or PATH@FROM..TO.
Result<Trace> read(const std::string& name) {
  const size_t at = name.rfind('@'), dots = name.find("..", at);
  if (at == std::string::npos || dots == std::string::npos) return metric_trace::read_trace(name);
  const auto from = parse_time(name.substr(at + 1, dots - at - 1), std::numeric_limits<int64_t>::min());
  if (!from) return from.error();
  const auto to = parse_time(name.substr(dots + 2), std::numeric_limits<int64_t>::max());
  if (!to) return to.error();
  auto trace = metric_trace::read_trace(name.substr(0, at));
  if (trace)
    std::erase_if(trace->rows,
                  [&](const metric_trace::Row& row) { return row.t_ns < *from || row.t_ns >= *to; });
  return trace;
}

/// The rows of the last `since` of `trace`, and in `trace` those before.
Trace split(Trace& trace, Duration since) {
  Trace now{.header = trace.header, .rows = {}};
  if (trace.rows.empty()) return now;
  const int64_t from = trace.rows.back().t_ns - std::chrono::nanoseconds(since).count();
  const auto first =
      std::ranges::find_if(trace.rows, [&](const metric_trace::Row& row) { return row.t_ns > from; });
  now.rows.assign(std::make_move_iterator(first), std::make_move_iterator(trace.rows.end()));
  trace.rows.erase(first, trace.rows.end());
  return now;
}

}  // namespace

int judge_metrics(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!parse(words, arguments)) return usage();
  const auto* method =
      std::ranges::find(kMethods, arguments.method.empty() ? kMethods[0].first : arguments.method,
                        [](const auto& each) { return each.first; });
  if (method == std::end(kMethods)) return usage();
  auto now = read(arguments.trace);
  if (!now) return fail(now.error());
  if (!arguments.to_file.empty()) {
    const Status written = metric_trace::write_trace(arguments.to_file, *now);
    return written.ok() ? 0 : fail(written);
  }
  Report report;
  if (arguments.since) {
    Trace& healthy = *now;
    const Trace recent = split(healthy, *arguments.since);
    report = method->second(healthy, recent);
  } else {
    const auto healthy = read(arguments.healthy);
    if (!healthy) return fail(healthy.error());
    report = method->second(*healthy, *now);
  }
  if (arguments.json) {
    fmt::print("{}\n", report.json.dump());
  } else {
    for (const std::string& line : report.lines)
      fmt::print("{}\n", line);
    if (!report.odd && arguments.method != "orion-text") fmt::print("nothing is unlike the healthy time\n");
  }
  return report.odd ? 3 : 0;
}

}  // namespace kintsugi::monitoring

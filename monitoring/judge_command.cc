#include "monitoring/judge_command.h"

#include <cstdio>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/config/units.h"
#include "monitoring/judging/report.h"
#include "monitoring/metrics/trace/files.h"
#include "monitoring/metrics/trace/selection.h"

namespace kintsugi::monitoring {
namespace {

using metric_trace::Trace;

struct Arguments {
  std::string method{judging::methods().front()};
  std::string healthy, trace, to_file;
  std::string logs, healthy_logs;
  std::string server;  ///< empty: all
  std::optional<Duration> since;
  bool json = false;
};

int judge_usage() {
  std::fprintf(
      stderr,
      "usage: kintsugi-monitor judge [--method NAME] [--json] [--server NAME] (--healthy TRACE | --since "
      "DURATION) "
      "TRACE\n"
      "       kintsugi-monitor judge --method blacksheep --logs DIR [--healthy-logs DIR] ... TRACE\n"
      "       kintsugi-monitor judge --method limits|rams-text [--json] TRACE\n"
      "       kintsugi-monitor judge --cut FILE [--server NAME] TRACE\n"
      "TRACE: a file, a table (.csv) or a monitor's directory, with @FROM..TO for a part (seconds since "
      "1970)\n"
      "methods: %s\n",
      fmt::format("{}", fmt::join(judging::methods(), ", ")).c_str());
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
    } else if (words[i] == "--server") {
      out.server = value();
    } else if (words[i] == "--logs") {
      out.logs = value();
    } else if (words[i] == "--healthy-logs") {
      out.healthy_logs = value();
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
  if (out.healthy_logs.empty()) out.healthy_logs = out.logs;
  const bool alone = judging::needs_no_healthy_time(out.method) && out.to_file.empty();
  return !out.trace.empty() && purposes == (alone ? 0 : 1);
}

/// What `name` names, of one server alone if one is named. kNotFound: the trace does not have it.
Result<Trace> read(const std::string& name, const std::string& server) {
  auto trace = metric_trace::read_part(name);
  if (!trace || server.empty()) return trace;
  if (const auto found = metric_trace::find_source(trace->header, server); !found) return found.error();
  return metric_trace::select(*trace, {.source = server, .metrics = {}}, std::numeric_limits<int64_t>::min());
}

}  // namespace

int judge_metrics(const std::vector<std::string>& words) {
  Arguments arguments;
  if (!parse(words, arguments)) return judge_usage();
  auto now = read(arguments.trace, arguments.server);
  if (!now) return fail(now.error());
  if (!arguments.to_file.empty()) {
    const Status written = metric_trace::write_trace(arguments.to_file, *now);
    return written.ok() ? 0 : fail(written);
  }
  Trace healthy;
  if (arguments.since) {
    healthy = std::move(*now);
    *now = judging::split(healthy, to_seconds(*arguments.since));
  } else if (!arguments.healthy.empty()) {
    auto other = read(arguments.healthy, arguments.server);
    if (!other) return fail(other.error());
    healthy = std::move(*other);
  }
  const auto report = judging::judge(
      arguments.method,
      {.healthy = healthy, .now = *now, .healthy_logs = arguments.healthy_logs, .logs = arguments.logs});
  if (!report) return fail(report.error());
  fmt::print("{}\n", arguments.json ? report->json : fmt::format("{}", fmt::join(report->lines, "\n")));
  return report->odd ? 3 : 0;
}

}  // namespace kintsugi::monitoring

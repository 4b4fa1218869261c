#include "monitoring/daemon/unlike_api.h"

#include <algorithm>
#include <functional>

#include <nlohmann/json.hpp>

#include "monitoring/judging/report.h"
#include "monitoring/metrics/trace/files.h"
#include "monitoring/metrics/trace/selection.h"

namespace kintsugi::monitoring {
namespace {

using Document = nlohmann::ordered_json;
using metric_trace::Trace;

/// The rows of one server from `since_ns` on; without metrics when it has none.
Trace rows_of(const std::string& directory, const std::string& server, int64_t since_ns,
              std::chrono::nanoseconds period, const std::stop_token& stop) {
  std::vector<Trace> parts;
  const auto use = [&](const Trace& part) {
    // Rows of another interval do not fit to the latest.
    if (part.header.period != period) return;
    Trace selected = metric_trace::select(part, {.source = server, .metrics = {}}, since_ns);
    if (!selected.header.metrics.empty()) parts.push_back(std::move(selected));
  };
  const Status read = metric_trace::for_each_part(directory, since_ns, use, stop);
  return read.ok() && !parts.empty() ? metric_trace::joined(std::move(parts)) : Trace{};
}

/// What was found at one server, and how much unlike it is.
struct Found {
  judging::Report report;
  Document findings;
  double excess = 0;
};

}  // namespace

std::string unlike_document(const MetricsQuery& query, const std::string& directory, int64_t now_ns,
                            const std::stop_token& stop) {
  Document document = {{"since_s", query.since_s},
                       {"healthy_s", kHealthySeconds},
                       {"lines", Document::array()},
                       {"findings", Document::array()}};
  const auto since_ns = now_ns - static_cast<int64_t>((query.since_s + kHealthySeconds) * 1e9);
  const auto header = metric_trace::latest_header(directory);
  if (!header) document["problem"] = header.error().to_string();
  std::vector<Found> found;
  // One server after the other, so that the rows of one are in memory.
  for (const metric_trace::Source& source : header ? header->sources : std::vector<metric_trace::Source>()) {
    if (!query.server.empty() && source.name != query.server) continue;
    Trace healthy = rows_of(directory, source.name, since_ns, header->period, stop);
    if (stop.stop_requested()) return "{\"problem\":\"the monitor stops\"}\n";
    // What was recorded last may be from long ago.
    if (healthy.rows.empty() || healthy.rows.back().t_ns < now_ns - static_cast<int64_t>(query.since_s * 1e9))
      continue;
    const Trace now = judging::split(healthy, query.since_s);
    auto report = judging::judge(judging::methods().front(), healthy, now);
    if (!report) continue;
    Document findings = Document::parse(report->json);
    const double excess = findings.empty() ? 0 : findings.front().value("excess", 0.0);
    found.push_back({.report = std::move(*report), .findings = std::move(findings), .excess = excess});
  }
  if (header && found.empty())
    document["problem"] = "nothing was recorded lately" + (query.server.empty() ? "" : " of " + query.server);
  std::ranges::stable_sort(found, std::greater<>(), &Found::excess);
  for (const Found& each : found) {
    if (each.findings.empty()) continue;
    for (const std::string& line : each.report.lines)
      document["lines"].push_back(line);
    for (const Document& finding : each.findings)
      document["findings"].push_back(finding);
  }
  if (!found.empty() && document["lines"].empty())
    document["lines"].push_back("nothing is unlike the healthy time");
  return document.dump(-1, ' ', false, Document::error_handler_t::replace) + "\n";
}

}  // namespace kintsugi::monitoring

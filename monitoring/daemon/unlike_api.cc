#include "monitoring/daemon/unlike_api.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "monitoring/judging/report.h"
#include "monitoring/metrics/orion/orion.h"
#include "monitoring/metrics/trace/coarser.h"
#include "monitoring/metrics/trace/files.h"
#include "monitoring/metrics/trace/selection.h"

namespace kintsugi::monitoring {
namespace {

using Document = nlohmann::ordered_json;
using metric_trace::Trace;

/// Whoever is asked about is seen beside so many others at most.
constexpr size_t kMostPeers = 12;

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

/// The servers that are compared, in the order of the header: all, or the one that is asked about and some others beside
/// which it is seen: those of its role, or any where its role has too few.
std::vector<std::string> compared_servers(const metric_trace::Header& header, const std::string& asked) {
  std::vector<std::string> all, of_role;
  for (const metric_trace::Source& source : header.sources) {
    all.push_back(source.name);
    if (metric_trace::role_of(source.name) == metric_trace::role_of(asked)) of_role.push_back(source.name);
  }
  if (asked.empty()) return all;
  if (std::ranges::find(all, asked) == all.end()) return {};
  std::vector<std::string>& peers = of_role.size() > orion::kFewestPeers ? of_role : all;
  std::erase(peers, asked);
  // Those whose names are next to each other may share a rack: others from all of them.
  std::vector<std::string> out{asked};
  for (size_t i = 0; i < std::min(peers.size(), kMostPeers); ++i)
    out.push_back(peers[i * peers.size() / std::min(peers.size(), kMostPeers)]);
  return out;
}

/// What was recorded last may be from long ago.
bool ended_before(const Trace& trace, int64_t t_ns) {
  return trace.rows.empty() || trace.rows.back().t_ns < t_ns;
}

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
  std::vector<orion::Finding> findings;
  std::vector<orion::NotJudged> not_judged;
  const std::vector<std::string> servers =
      header ? compared_servers(*header, query.server) : std::vector<std::string>();
  // One server after the other, so that the rows of one are in memory.
  for (const std::string& server : servers) {
    Trace healthy = rows_of(directory, server, since_ns, header->period, stop);
    if (stop.stop_requested()) return "{\"problem\":\"the monitor stops\"}\n";
    if (ended_before(healthy, now_ns - static_cast<int64_t>(query.since_s * 1e9))) continue;
    const Trace now = judging::split(healthy, query.since_s);
    auto finding = orion::compare(metric_trace::series_of(healthy, 0), metric_trace::series_of(now, 0),
                                  query.server.empty() ? servers.size() : 1);
    if (finding)
      findings.push_back(std::move(*finding));
    else
      not_judged.push_back({server, finding.error().message()});
  }
  orion::Localisation found = orion::compared_with_peers(std::move(findings));
  found.not_judged = std::move(not_judged);
  const auto is_peer = [&](const auto& each) { return !query.server.empty() && each.source != query.server; };
  std::erase_if(found.odd, is_peer);
  std::erase_if(found.also_changed, is_peer);
  std::erase_if(found.healthy, is_peer);
  std::erase_if(found.not_judged, is_peer);
  const bool nothing =
      found.odd.empty() && found.also_changed.empty() && found.healthy.empty() && found.not_judged.empty();
  if (header && nothing) {
    document["problem"] = "nothing was recorded lately" + (query.server.empty() ? "" : " of " + query.server);
  } else if (header) {
    const judging::Report report = judging::report_of(found);
    document["lines"] = report.lines;
    document["findings"] = Document::parse(report.json);
  }
  return document.dump(-1, ' ', false, Document::error_handler_t::replace) + "\n";
}

}  // namespace kintsugi::monitoring

#include "monitoring/daemon/unlike_api.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "monitoring/judging/report.h"
#include "monitoring/metrics/trace/files.h"
#include "monitoring/metrics/trace/selection.h"

namespace kintsugi::monitoring {

std::string unlike_document(const MetricsQuery& query, const std::string& directory, int64_t now_ns) {
  using Document = nlohmann::ordered_json;
  Document document = {{"since_s", query.since_s},
                       {"healthy_s", kHealthySeconds},
                       {"lines", Document::array()},
                       {"findings", Document::array()}};
  const auto since_ns = now_ns - static_cast<int64_t>(query.since_s * 1e9);
  const auto healthy_ns = since_ns - static_cast<int64_t>(kHealthySeconds * 1e9);
  std::vector<metric_trace::Trace> parts;
  const Status read =
      metric_trace::for_each_part(directory, healthy_ns, [&](const metric_trace::Trace& part) {
        metric_trace::Trace selected =
            metric_trace::select(part, {.source = query.server, .metrics = {}}, healthy_ns);
        if (!selected.header.metrics.empty()) parts.push_back(std::move(selected));
      });
  if (!read.ok()) {
    document["problem"] = read.to_string();
  } else if (parts.empty()) {
    document["problem"] = "nothing is recorded of " + query.server;
  } else {
    metric_trace::Trace healthy = metric_trace::joined(std::move(parts));
    const metric_trace::Trace now = judging::split(healthy, query.since_s);
    if (const auto report = judging::judge(judging::methods().front(), healthy, now)) {
      document["lines"] = report->lines;
      document["findings"] = Document::parse(report->json);
    }
  }
  return document.dump(-1, ' ', false, Document::error_handler_t::replace) + "\n";
}

}  // namespace kintsugi::monitoring

/// The pages on which a daemon shows what its recorder holds.
#pragma once

#include "common/http/http_server.h"
#include "common/metrics/metrics.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::sight {

/// Adds to /metrics one histogram, kintsugi_module_seconds{path="...",module="..."}, and kintsugi_module_errors_total.
/// Serves two pages:
///
/// - /debug/paths: a table of all calling contexts with their count, errors, mean, 50th and 99th percentile (upper
///   bounds of their buckets).
/// - /debug/events: the newest events as a JSON array of name, trace, span, parent, start and duration in nanoseconds,
///   inputs, outputs and code.
///
/// `recorder` outlives both.
void add_pages(http::HttpServer& http, metrics::Metrics& metrics, const Recorder& recorder);

}  // namespace kintsugi::sight

/// The pages on which a daemon shows what its recorder holds.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "common/http/http_server.h"
#include "common/metrics/metrics.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::sight {

/// Adds to /metrics one histogram, kintsugi_module_seconds{path="...",module="..."}, kintsugi_module_errors_total, and
/// kintsugi_module_open{module="..."}: how many executions of it have begun and not ended. The page of samples gets the
/// last one, too.
/// Serves pages:
///
/// - /debug/paths: a table of all calling contexts with their count, errors, mean, 50th and 99th percentile (upper
///   bounds of their buckets).
/// - /debug/events: the newest events as a JSON array of name, trace, span, parent, start and duration in nanoseconds,
///   inputs, outputs and code.
/// - /debug/trace?id=HEX: the spans of a trace that ended in this process, as the JSON that OTLP/HTTP takes
///   (opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest); without an id the newest spans of all traces.
/// - /debug/live: what is open, as lines; the longest first.
///
/// `recorder` outlives both.
void add_pages(http::HttpServer& http, metrics::Metrics& metrics, const Recorder& recorder);

/// Adds kintsugi_loop_lag_seconds. `lag` is called as long as the registry lives.
void add_loop_lag(metrics::Metrics& metrics, std::function<Duration()> lag);

/// How many executions of each region are open now, by its name; those without any are not there. On the loop's thread
/// the numbers are exact, but for calls of which only one in many is recorded.
std::map<std::string_view, uint64_t> open_regions(const Recorder& recorder);
/// How many executions of each region have ended since the process began.
std::map<std::string_view, uint64_t> ended_regions(const Recorder& recorder);

/// The trace of "id=HEX", 16 digits or the 32 of a W3C id; 0: none is named.
uint64_t trace_of_query(std::string_view query);
/// The spans of a trace (0: of all) that ended lately, as an OTLP/HTTP request. `wall_minus_clock_ns` is added to the
/// times of the recorder's clock.
std::string trace_as_otlp(const Recorder& recorder, uint64_t trace_id, int64_t wall_minus_clock_ns);

}  // namespace kintsugi::sight

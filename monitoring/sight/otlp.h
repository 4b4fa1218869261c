/// Spans in the form that OTLP/HTTP takes: opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest as JSON,
/// with W3C ids.
#pragma once

#include <span>
#include <string>

#include "monitoring/sight/recorder.h"
#include "monitoring/sight/reporter.h"

namespace kintsugi::sight {

/// `wall_minus_clock_ns` is added to the times of the recorder's clock. A trace's number is the end of its W3C id.
std::string otlp_request(std::span<const Event> spans, const Reporting& who, int64_t wall_minus_clock_ns);

}  // namespace kintsugi::sight

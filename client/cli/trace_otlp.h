/// Flows as spans, for collectors of OpenTelemetry.
#pragma once

#include <ostream>

#include "tracing/events/separation.h"

namespace kintsugi::cli {

/// One ExportTraceServiceRequest as JSON. A flow is a trace; a span is what one process did for one call, from the frame that asked for
/// it on, or what a command did. Flows without calls are left out.
void write_otlp(std::ostream& out, const tracing::Separated& separated);

}  // namespace kintsugi::cli

/// Traces in the formats of other people's tools.
#pragma once

#include <ostream>

#include "tracing/events/separation.h"

namespace kintsugi::cli {

/// JSON that chrome://tracing and Perfetto open: processes, lanes, nested functions with the flow that each belongs to, and an arrow
/// from each frame that was sent to where it came. A frame whose other end is not recorded is an instant.
void write_chrome(std::ostream& out, const tracing::Separated& separated);

/// A line for each call path, "process;function;function 1234": nanoseconds in its last function. Flame graphs are made of it.
void write_folded(std::ostream& out, const tracing::Separated& separated);

}  // namespace kintsugi::cli

/// A trace as people read it.
#pragma once

#include "tracing/events/named_trace.h"

namespace kintsugi::cli {

/// Prints every record on a line: time in microseconds, and the function as far to the right as it lies deep.
void print_trace(const tracing::NamedTrace& named);
/// The same as one JSON document, a record on a line. It is written as it is made: a trace has millions of them.
void print_trace_json(const tracing::NamedTrace& named);

}  // namespace kintsugi::cli

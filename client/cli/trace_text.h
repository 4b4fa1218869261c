/// A trace as people read it.
#pragma once

#include "client/cli/json.h"
#include "tracing/events/named_trace.h"

namespace kintsugi::cli {

/// Prints every record on a line: time in microseconds, and the function as far to the right as it lies deep.
void print_trace(const tracing::NamedTrace& named);
Json to_json(const tracing::NamedTrace& named);

}  // namespace kintsugi::cli

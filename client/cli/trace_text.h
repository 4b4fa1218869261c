/// A trace as people read it.
#pragma once

#include <string>
#include <vector>

#include "client/cli/json.h"
#include "common/base/status.h"
#include "tracing/records/trace_reader.h"

namespace kintsugi::cli {

/// Names of the functions of a trace, by their number - 1. They stand in the binary that was traced: `binary`, or when that is empty
/// where the trace says, or beside this program. kConflict: it is another build. kNotFound: there is none.
Result<std::vector<std::string>> function_names(const tracing::Trace& trace, const std::string& binary);

/// Prints every record on a line: time in microseconds, and the function as far to the right as it lies deep.
void print_trace(const tracing::Trace& trace, const std::vector<std::string>& names);
Json to_json(const tracing::Trace& trace, const std::vector<std::string>& names);

}  // namespace kintsugi::cli

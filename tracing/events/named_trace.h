/// A trace with the names that stand in its binary.
#pragma once

#include <string>
#include <vector>

#include "tracing/records/trace_reader.h"

namespace kintsugi::tracing {

struct NamedTrace {
  Trace trace;
  std::vector<std::string> functions;  ///< by function - 1; empty: the binary does not say
  std::string process;  ///< what it is called, "kintsugi-chunkserver 1234 (traces/trace.127.0.0.1:4000)"
  std::string binary;   ///< "kintsugi-chunkserver": processes of one binary are comparable
};

/// Names of the functions of a trace. They stand in the binary that was traced: `binary`, or when that is empty where the trace says,
/// or beside this program. kConflict: it is another build. kNotFound: there is none.
Result<std::vector<std::string>> function_names(const Trace& trace, const std::string& binary);

/// Reads a trace and its names.
Result<NamedTrace> read_named_trace(const std::string& path, const std::string& binary);

}  // namespace kintsugi::tracing

/// What was odd in traces, and why, in words.
#pragma once

#include <string>

#include "client/cli/json.h"
#include "tracing/events/separation.h"

namespace kintsugi::cli {

/// One answer: about requests of one method, about commands, or about processes of one binary.
struct TraceAnswer {
  std::string about;    ///< "ReadChunk", "kintsugi", "kintsugi-chunkserver"
  size_t compared = 0;  ///< how many of them
  std::string finding;  ///< "outlier", "no outlier", "fail-stop", "too few"
  std::string text;     ///< a few lines
};

/// Compares requests of each method that there are enough of, then commands, then processes of each binary. `normal` are traces of runs that were
/// well; null: there are none. Errors: those of anomaly::rank.
Result<std::vector<TraceAnswer>> explain_traces(const tracing::Separated& separated,
                                                const tracing::Separated* normal);

Json to_json(const std::vector<TraceAnswer>& answers);

}  // namespace kintsugi::cli

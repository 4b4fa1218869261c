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
  /// The accused process, or the one at which the accused request began; empty: nobody is accused.
  std::string process;
  Json evidence;      ///< what the text says, as fields: docs/reference/json.md
  int order = 0;      ///< the smaller it is, the more an accusation tells of the cause: see explain_traces
  double weight = 0;  ///< among answers of one order the greatest comes first
};

/// Traces of runs that were well.
struct NormalRuns {
  const tracing::Separated* traces = nullptr;  ///< null: there are none
  double least_seconds = 0;                    ///< who lost less is accused of nothing
};

/// Compares requests of each method that there are enough of, commands, and processes of each binary. Those that accuse come first:
/// who died, who lost most seconds, who called something else, whose shares are other ones. Errors: those of anomaly::rank.
Result<std::vector<TraceAnswer>> explain_traces(const tracing::Separated& separated,
                                                const NormalRuns& normal);

Json to_json(const std::vector<TraceAnswer>& answers);

}  // namespace kintsugi::cli

/// Directives of an operator's own (tracing/flow/directives.h), for what records and for what reads recordings.
#pragma once

#include <string>

#include "common/proto/trace.pb.h"
#include "tracing/events/separation.h"

namespace kintsugi::cli {

/// Errors name the file and the line.
Result<flow::Directives> read_directives(const std::string& path);

/// Returns the directives by which flows are told apart: those of the file `path`; if it is empty, those that are
/// known of our daemons; with `rules_only` none.
Result<tracing::SeparationSettings> separation_settings(const std::string& path, bool rules_only);

/// Has the values recorded that these directives need.
void record_values(const flow::Directives& directives, proto::TraceRequest& request);

}  // namespace kintsugi::cli

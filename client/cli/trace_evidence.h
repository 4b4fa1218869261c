/// Turns an explanation of traces into fields that programs read.
#pragma once

#include "client/cli/json.h"
#include "tracing/cause/explanation.h"

namespace kintsugi::cli {

/// REQUIRES: `paths` are those of the explanation. docs/reference/json.md tells what each field means.
Json evidence_of(const cause::Explanation& explanation, const anomaly::CallPaths& paths);

}  // namespace kintsugi::cli

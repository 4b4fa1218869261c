/// kintsugi trace attach --start verdict: the servers that the monitor names record themselves.
#pragma once

#include <string_view>

#include "client/cli/trace_attach.h"

namespace kintsugi::cli {

inline constexpr std::string_view kAtVerdict = "verdict", kCulprit = "culprit";

/// Waits until the monitor's verdicts name the daemon, or with "culprit" any one, and has those record themselves that they name. Verdicts
/// that are unsure, and those of what has not gone wrong yet, are none to it.
Status attach_at_verdict(Session& session, client::BlockingClient& client, const AttachArguments& arguments);

}  // namespace kintsugi::cli

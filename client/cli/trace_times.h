/// Times of a recording, and what a daemon is asked for.
#pragma once

#include <cstdint>
#include <string>

#include "client/cli/trace_attach.h"

namespace kintsugi::cli {

/// kInvalidArgument says which option is wrong.
Result<proto::TraceRequest> attach_request(const AttachArguments& arguments);

/// What "at:HH:MM" or "at:HH:MM:SS", by the clock of this host, is for a daemon: "after:...ms". `now_unix_s`: the time now.
Result<std::string> after_time(const std::string& at, int64_t now_unix_s);

/// "2026-01-31 17:05:09.123".
std::string time_of_day(int64_t unix_ms);

}  // namespace kintsugi::cli

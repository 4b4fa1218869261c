/// Times of days and weeks, as commands take them.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/runtime/clock.h"

namespace kintsugi::cli {

/// "2w", "7d", "12h", "30m", "45s"; "7" is as many days, and "0" is no time. kInvalidArgument: at most 100 years.
Result<Duration> parse_long_time(const std::string& text);

}  // namespace kintsugi::cli

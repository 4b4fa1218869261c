/// The activity logs that recordings come with.
#pragma once

#include <chrono>
#include <string>

#include "common/base/status.h"
#include "monitoring/judging/report.h"
#include "monitoring/metrics/blacksheep/states.h"

namespace kintsugi::judging {

/// Numbers of a log are of so long.
inline constexpr std::chrono::seconds kLogPeriod{1};

/// The log of a process: "chunkserver-3.activity.log"; a repair manager, whose name has its address, is not found by it.
Result<blacksheep::States> states_of(const std::string& directory, const std::string& source);

/// kInvalidArgument: no logs were given; kNotFound: there is no such directory.
Status check_logs(const Recordings& recordings);

}  // namespace kintsugi::judging

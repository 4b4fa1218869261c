/// /api/v1/unlike: what the recorded metrics of the last minutes are unlike before, as JSON.
#pragma once

#include <stop_token>
#include <string>

#include "monitoring/daemon/metrics_api.h"

namespace kintsugi::monitoring {

/// So long before the minutes that are asked about counts as the healthy time.
inline constexpr double kHealthySeconds = 2 * 3600.0;

/// A longer `since` is refused: all rows of one server are in memory at once.
inline constexpr double kLongestUnlike = 6 * 3600.0;

/// `query`: "server=chunkserver-1&since=600"; no server: all. Reads the trace of the directory and compares, which may take
/// seconds. Never fails: what is wrong is in the field "problem". Once `stop` says so it ends soon, and what it says then is
/// not to be shown.
std::string unlike_document(const MetricsQuery& query, const std::string& directory, int64_t now_ns,
                            const std::stop_token& stop = {});

}  // namespace kintsugi::monitoring

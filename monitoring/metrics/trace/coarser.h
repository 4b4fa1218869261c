/// Series of longer periods than they were recorded with. Pure.
#pragma once

#include <string>
#include <vector>

#include "monitoring/metrics/trace/series.h"

namespace kintsugi::metric_trace {

/// Means of `rows` rows at a time, each at the time of its last row; what does not fill a row at the end of a segment
/// is left out. A mean with an unknown value is unknown. With `rows` below 2: `series` itself.
Series averaged(const Series& series, size_t rows);
/// Rows of `period`, as nearly as whole numbers of rows have it; series that are as slow already stay as they are.
Series averaged_to(const Series& series, std::chrono::nanoseconds period);

/// Stretches of `length` that each lie in one life of the process; shorter rests are left out.
std::vector<Series> stretches(const Series& series, std::chrono::nanoseconds length);

/// What processes do, by their name without its number: "chunkserver" of "chunkserver-3".
std::string role_of(const std::string& source);

}  // namespace kintsugi::metric_trace

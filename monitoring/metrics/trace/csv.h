/// A trace as a table for spreadsheets and scripts (RFC 4180), and back. Pure.
///
/// ```
/// # kintsugi-trace,1
/// # period_ns,1000000000
/// # host,lab
/// # workload,ramp
/// # source,chunkserver-3,BUILD,17       name, build, number of the process (0 or left out: not known)
/// # metric,0,num_fds,gauge,256          number of the source, name, kind, limit (empty: none)
/// # region,0,disk.read                  number of the source, name
/// t_ns,chunkserver-3:num_fds,open,restarts
/// 1700000000000000000,57,0=2;3=1/12,0=BUILD
/// ```
/// A cell without a text is a missing value. `open` has NUMBER OF THE REGION=EXECUTIONS THAT ARE OPEN, or
/// =OPEN/ENDED SINCE THE ROW BEFORE; `restarts` has NUMBER OF THE SOURCE=BUILD.
#pragma once

#include <string>
#include <string_view>

#include "monitoring/metrics/trace/trace.h"

namespace kintsugi::metric_trace {

std::string to_csv(const Trace& trace);

/// kCorrupt names the line that is not understood.
Result<Trace> from_csv(std::string_view text);

}  // namespace kintsugi::metric_trace

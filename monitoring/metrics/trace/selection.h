/// A part of a trace: of some sources, metrics and times. Pure.
#pragma once

#include <string>
#include <vector>

#include "monitoring/metrics/trace/trace.h"

namespace kintsugi::metric_trace {

struct Selection {
  std::string source;                ///< empty: all
  std::vector<std::string> metrics;  ///< empty: all, and the regions
  bool regions = false;              ///< the regions as well, although metrics are named
};

/// The rows from `since_ns` on with the columns that are selected, and the sources that have one. The header has no
/// metrics when nothing is selected.
Trace select(const Trace& trace, const Selection& selection, int64_t since_ns);

}  // namespace kintsugi::metric_trace

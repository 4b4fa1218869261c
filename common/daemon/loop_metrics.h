/// The turns of a daemon's event loop as metrics, and a line in the log about those that hold everybody up.
#pragma once

#include "common/metrics/metrics.h"
#include "common/runtime/production/production_runtime.h"

namespace kintsugi::daemon {

/// Turns of more than this are told in the log: clients see them.
inline constexpr Duration kTurnWorthALine = 100ms;

/// Lets the loop measure its turns and adds their metrics. `production` outlives `metrics`, and runs only as long as
/// that exists.
void add_loop_metrics(runtime::ProductionRuntime& production, metrics::Metrics& metrics);

}  // namespace kintsugi::daemon

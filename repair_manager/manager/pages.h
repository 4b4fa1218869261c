/// Pages and metrics of a repair manager, for its host to show over HTTP.
#pragma once

#include <string>

#include "common/metrics/metrics.h"
#include "repair_manager/manager/repair_manager.h"

namespace kintsugi::repair_manager {

/// Describes the queue, running repairs and the newest of the history, for people.
std::string describe_repairs(const RepairManager& repairs);

/// Registers gauges and counters. `repairs` outlives the metrics.
void add_repair_metrics(metrics::Metrics& metrics, const RepairManager& repairs);

}  // namespace kintsugi::repair_manager

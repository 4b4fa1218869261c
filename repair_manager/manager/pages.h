/// What the host of a repair manager shows of it over HTTP.
#pragma once

#include <string>

#include "common/metrics/metrics.h"
#include "repair_manager/manager/repair_manager.h"

namespace kintsugi::repair_manager {

/// Queue, running repairs and the newest of the history, for people.
std::string describe_repairs(const RepairManager& repairs);

/// `repairs` outlives the metrics.
void add_repair_metrics(metrics::Metrics& metrics, const RepairManager& repairs);

}  // namespace kintsugi::repair_manager

/// Tells what a daemon was built from: who compares daemons during an upgrade wants to know which of them runs what.
#pragma once

#include "common/metrics/metrics.h"

namespace kintsugi::daemon {

/// kintsugi_build_info{version, commit, compiler, fault_points} is 1.
void add_build_metrics(metrics::Metrics& metrics);

}  // namespace kintsugi::daemon

/// What mounts did, as series of the monitor's /metrics: mounts have no pages of their own.
#pragma once

#include <memory>

#include "monitoring/daemon/monitor.h"

namespace prometheus {
class Collectable;
}

namespace kintsugi::monitoring {

/// Series with the labels host and mount, of those that mounts_of() has. `monitor` outlives it.
std::shared_ptr<prometheus::Collectable> mount_metrics(const Monitor& monitor);

}  // namespace kintsugi::monitoring

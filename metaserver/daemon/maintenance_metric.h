/// Which servers are in maintenance, and for how long still, at the metaserver's page of metrics.
#pragma once

#include <memory>

#include "metaserver/cluster/server_registry.h"

namespace prometheus {
class Collectable;
}

namespace kintsugi::metaserver {

/// One gauge for each server in maintenance. `servers` outlives it.
std::shared_ptr<prometheus::Collectable> maintenance_metric(const ServerRegistry& servers);

}  // namespace kintsugi::metaserver

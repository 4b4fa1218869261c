/// Metrics of what a daemon's server holds back of its peers' requests.
#pragma once

#include "common/metrics/metrics.h"

namespace kintsugi::rpc {
class Server;
}

namespace kintsugi::daemon {

/// REQUIRES: `metrics` is not read once the server has gone.
void add_peer_metrics(const rpc::Server& server, metrics::Metrics& metrics);

}  // namespace kintsugi::daemon

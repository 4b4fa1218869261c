#include "common/daemon/peer_metrics.h"

#include "common/rpc/server.h"

namespace kintsugi::daemon {

void add_peer_metrics(const rpc::Server& server, metrics::Metrics& metrics) {
  metrics.gauge("kintsugi_rpc_peers_held_back",
                "Peers (tokens, or addresses) that have as many requests or bytes here as one may have", {},
                [&server] { return static_cast<double>(server.held_back().peers); });
  metrics.counter(
      "kintsugi_rpc_held_back_total",
      "Requests that were not read until others of their peer had ended, and connections that were refused",
      {}, [&server] { return static_cast<double>(server.held_back().times); });
}

}  // namespace kintsugi::daemon

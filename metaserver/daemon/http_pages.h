/// The pages of a metaserver beside those of every daemon: its metrics, /sd and /debug/repairs.
#pragma once

#include "common/http/http_server.h"
#include "common/metrics/metrics.h"
#include "metaserver/daemon/meta_daemon.h"

namespace kintsugi::metaserver {

/// What only the process knows of its pages.
struct OwnPages {
  runtime::Endpoint listen;  ///< where its RPCs are
  std::string http_address;  ///< where they are; empty: there are none
  bool over_tls = false;     ///< those at other than loopback addresses, of this and of the other daemons
};

/// `daemon` and `clock` outlive the registry and the pages: they are asked when they are read.
void add_pages(http::HttpServer& http, metrics::Metrics& metrics, MetaDaemon& daemon,
               const runtime::Clock& clock, OwnPages own);

}  // namespace kintsugi::metaserver

/// The pages of a metaserver beside those of every daemon: its metrics and /debug/repairs.
#pragma once

#include "common/http/http_server.h"
#include "common/metrics/metrics.h"
#include "metaserver/daemon/meta_daemon.h"

namespace kintsugi::metaserver {

/// `daemon` outlives the registry and the pages: it is asked when they are read.
void add_pages(http::HttpServer& http, metrics::Metrics& metrics, MetaDaemon& daemon);

}  // namespace kintsugi::metaserver

/// The pages of a repair manager beside those of every daemon: its metrics and /debug/repairs.
#pragma once

#include "common/http/http_server.h"
#include "common/metrics/metrics.h"
#include "repair_manager/daemon/repair_daemon.h"

namespace kintsugi::repair_manager {

/// `daemon` outlives the registry and the pages: it is asked when they are read.
void add_pages(http::HttpServer& http, metrics::Metrics& metrics, RepairDaemon& daemon);

}  // namespace kintsugi::repair_manager

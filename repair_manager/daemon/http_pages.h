/// What the repair manager daemon shows over HTTP: /metrics, /healthz, /debug/paths, /debug/events,
/// /debug/repairs and /debug/settings.
#pragma once

#include <string>

#include "common/http/http_server.h"
#include "common/metrics/metrics.h"
#include "monitoring/sight/recorder.h"
#include "repair_manager/daemon/repair_daemon.h"

namespace kintsugi::repair_manager {

/// Before http.start(). Everything given outlives the server.
void add_metrics(metrics::Metrics& metrics, RepairDaemon& daemon, const sight::Recorder& recorder);
void add_pages(http::HttpServer& http, const metrics::Metrics& metrics, RepairDaemon& daemon,
               const sight::Recorder& recorder, std::string settings);

}  // namespace kintsugi::repair_manager

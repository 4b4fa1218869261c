/// What the metaserver daemon shows over HTTP: /metrics, /healthz, /debug/paths, /debug/events,
/// /debug/repairs and /debug/settings.
#pragma once

#include <string>

#include "common/http/http_server.h"
#include "common/metrics/metrics.h"
#include "metaserver/daemon/meta_daemon.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::metaserver {

/// Before http.start(). Everything given outlives the server.
void add_metrics(metrics::Metrics& metrics, MetaDaemon& daemon, const sight::Recorder& recorder);
void add_pages(http::HttpServer& http, const metrics::Metrics& metrics, MetaDaemon& daemon,
               const sight::Recorder& recorder, std::string settings);

}  // namespace kintsugi::metaserver

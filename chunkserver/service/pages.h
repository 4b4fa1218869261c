/// What a chunkserver shows over HTTP: /metrics, /healthz and /debug pages.
#pragma once

#include "chunkserver/service/chunkserver.h"
#include "common/http/http_server.h"
#include "common/metrics/metrics.h"

namespace kintsugi::chunkserver {

/// Both refer to `server`, which is asked when a page is.
void add_metrics(metrics::Metrics& metrics, ChunkServer& server);
void add_pages(http::HttpServer& http, metrics::Metrics& metrics, ChunkServer& server);

}  // namespace kintsugi::chunkserver

/// The pages of a chunkserver beside those of every daemon: its metrics, /debug/cache, /debug/link, /debug/paths and
/// /debug/events.
#pragma once

#include "chunkserver/service/chunkserver.h"
#include "common/http/http_server.h"
#include "common/metrics/metrics.h"

namespace kintsugi::chunkserver {

/// `server` outlives the registry and the pages: it is asked when they are read.
void add_pages(http::HttpServer& http, metrics::Metrics& metrics, ChunkServer& server);

}  // namespace kintsugi::chunkserver

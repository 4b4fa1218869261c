/// The pages of a monitor beside those of every daemon: the console, its API, and metrics of alarms and processes.
#pragma once

#include <string_view>

#include "common/http/http_server.h"
#include "common/metrics/metrics.h"
#include "monitoring/daemon/console_api.h"

namespace kintsugi::monitoring {

/// `monitor` and `api` outlive the registry and the pages.
void add_pages(http::HttpServer& http, metrics::Metrics& metrics, Monitor& monitor, ConsoleApi& api);

/// A file of the console that is part of the program (monitoring/console).
struct ConsoleFile {
  std::string_view path;  ///< "/", "/console.css"
  std::string_view content_type;
  std::string_view body;
};
/// Ends with a file without a path. Generated at build time.
extern const ConsoleFile kConsoleFiles[];

}  // namespace kintsugi::monitoring

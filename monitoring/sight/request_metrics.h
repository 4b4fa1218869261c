/// How many requests of users a daemon served, and how long they took, as counters: the monitor records those over hours
/// and days, and histograms not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/metrics/metrics.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::sight {

/// "read": the requests ReadChunk and ReadSmallChunk.
struct Operation {
  std::string name;
  std::vector<std::string_view> requests;
};

/// Adds kintsugi_requests_total{operation="..."} and kintsugi_request_seconds_total{operation="..."}, of requests that
/// have ended. `recorder` outlives the registry.
void add_request_metrics(metrics::Metrics& metrics, const Recorder& recorder,
                         std::vector<Operation> operations);

}  // namespace kintsugi::sight

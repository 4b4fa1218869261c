/// Traces that tests make up.
#pragma once

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "common/base/draws.h"
#include "monitoring/metrics/trace/series.h"
#include "monitoring/metrics/trace/trace.h"

namespace kintsugi::metric_trace {

inline constexpr int64_t kSecond = 1'000'000'000;

/// A trace of one source with gauges of these names, and rows that `values_at` gives.
inline Trace gauges(const std::vector<std::string>& names, size_t rows,
                    const std::function<std::vector<double>(size_t)>& values_at) {
  Trace trace;
  trace.header.sources = {{.name = "chunkserver-1", .build_id = "b1"}};
  for (const std::string& name : names)
    trace.header.metrics.push_back({.name = name, .kind = Kind::kGauge, .source = 0});
  for (size_t i = 0; i < rows; ++i)
    trace.rows.push_back(
        {.t_ns = static_cast<int64_t>(i) * kSecond, .values = values_at(i), .activity = {}, .restarts = {}});
  return trace;
}

/// Processes as they are in a healthy cluster: a load that wanders (and may be changed from outside), metrics that follow
/// it with noise, and metrics of their own.
struct HealthyProcess {
  explicit HealthyProcess(uint64_t seed) : draws(seed) {}

  static std::vector<std::string> names() {
    return {"calls",   "read_bytes", "cpu",     "context_switches", "rss",
            "num_fds", "sockets",    "threads", "cached",           "queue"};
  }
  /// Values in the order of names().
  std::vector<double> next(double load_factor = 1) {
    load = 0.95 * load + draws.normal();
    const double calls = load_factor * (100 + 6 * load);
    cache = 0.9 * cache + draws.normal();
    memory = 0.97 * memory + draws.normal();
    const auto noise = [&](double deviation) { return deviation * draws.normal(); };
    return {calls,
            calls * 64 + noise(150),
            0.3 * calls + noise(2),
            5 * calls + noise(40),
            1000 + 4 * memory + noise(2),
            60 + 0.2 * calls + noise(1.5),
            30 + 0.1 * calls + noise(1),
            16 + std::round(draws.uniform(0, 3)),
            500 + 10 * cache,
            std::abs(0.05 * calls + noise(2))};
  }
  Draws draws;
  double load = 0, cache = 0, memory = 0;
};

}  // namespace kintsugi::metric_trace

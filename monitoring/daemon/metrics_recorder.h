/// Has the metrics of the processes that report recorded, and those of the monitor itself.
#pragma once

#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/http/http_server.h"
#include "common/metrics/metrics.h"
#include "common/runtime/task_group.h"
#include "monitoring/daemon/monitor.h"
#include "monitoring/daemon/sampled_processes.h"
#include "monitoring/recording/sampler.h"

namespace kintsugi::monitoring {

struct MetricsOptions {
  bool record = true;
  Duration interval = std::chrono::seconds(1);
  uint64_t most_bytes = uint64_t{2} << 30;
  Duration most_time = std::chrono::hours(24);
  runtime::TlsPolicy tls{};
};

/// Where the metrics are recorded, in a monitor's data directory.
inline std::string metrics_directory(const std::string& data_dir) {
  return data_dir + "/metrics";
}

/// Nothing of it is needed by anybody else: when it cannot continue, a line in the log says so.
class MetricsRecorder {
 public:
  static constexpr Duration kLookForProcesses = std::chrono::seconds(1);

  /// `monitor` outlives it.
  MetricsRecorder(const runtime::Runtime& runtime, const Monitor& monitor, MetricsOptions options);

  void start();
  /// Idempotent.
  asio::awaitable<void> stop();

  /// The trace is in this directory (metric_trace::read_trace).
  const std::string& directory() const { return directory_; }
  const MetricsOptions& options() const { return options_; }
  recording::SamplerState state() const { return sampler_.state(); }

 private:
  asio::awaitable<void> look_for_processes();
  recording::Target itself() const;

  const Monitor& monitor_;
  const MetricsOptions options_;
  const std::string directory_;
  const ThisMachine here_;
  const uint64_t process_;
  recording::Sampler sampler_;
  runtime::TaskGroup tasks_;
};

/// Adds /api/v1/metrics (metrics_api.h), and metrics of the recording. `recorder` and `clock` outlive both.
void add_pages(http::HttpServer& http, metrics::Metrics& metrics, const MetricsRecorder& recorder,
               const runtime::Clock& clock);

}  // namespace kintsugi::monitoring

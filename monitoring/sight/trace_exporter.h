/// Sends spans that have ended to a collector of OpenTelemetry, as OTLP/HTTP in JSON. On the observer's thread, so
/// that it costs the loop nothing.
#pragma once

#include <string>

#include "common/http/http_post.h"
#include "monitoring/sight/recorder.h"
#include "monitoring/sight/reporter.h"

namespace kintsugi::sight {

/// Which traces, and where to; the monitor tells it to every process.
struct TraceExport {
  std::string collector;  ///< address, as "http://host:port/v1/traces"; empty: traces are not sent
  double share = 0;       ///< share of all traces; every process chooses the same ones
};

/// True when a trace is among the `share` that is sent: by its number alone, so that all processes choose the same.
bool is_chosen(uint64_t trace_id, double share);

class TraceExporter {
 public:
  static constexpr size_t kMostSpans = 2000;  ///< spans in one request; further ones are dropped
  static constexpr Duration kLimit = std::chrono::seconds(2);
  static constexpr Duration kPauseAfterFailure = std::chrono::seconds(30);

  explicit TraceExporter(const Recorder& recorder) : recorder_(recorder) {}

  /// Sends what ended since the last call, of the chosen traces. What cannot be sent is lost; then nothing is tried
  /// for a while.
  asio::awaitable<void> send(asio::any_io_executor executor, TraceExport wanted, Reporting who,
                             WallTime wall);

 private:
  const Recorder& recorder_;
  TimePoint sent_until_{}, not_before_{};
  bool failing_ = false;
};

}  // namespace kintsugi::sight

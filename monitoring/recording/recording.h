/// Samples processes and keeps the rows as a trace: the work of a Sampler, tick by tick, without its thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/runtime/tls/tls_network.h"
#include "monitoring/metrics/trace/files.h"
#include "monitoring/recording/sampled_daemon.h"

namespace kintsugi::recording {

struct RecordingOptions {
  metric_trace::TraceFilesOptions keep;
  Duration period = std::chrono::seconds(1);
  std::string host;
  runtime::TlsPolicy tls{};  ///< for pages of daemons that are served to other hosts
};

struct RecordingState {
  uint64_t rows = 0;         ///< rows that were kept
  uint64_t missed_rows = 0;  ///< ticks that came too late, and those at which nothing could be kept
  uint64_t bytes = 0;        ///< size of the trace on disk
  uint64_t metrics = 0;      ///< columns of a row
  std::string stopped;       ///< why nothing is kept now; empty: rows are kept
};

/// One tick is one row. When the disk does not take one, nothing is sampled for kAgain, and that is logged once.
class Recording {
 public:
  static constexpr Duration kAgain = std::chrono::minutes(1);
  /// A daemon has this long to answer, and not more than half a period.
  static constexpr Duration kPageLimit = std::chrono::milliseconds(500);
  /// Metrics that are new get columns at most so often, for each time a file begins; those of a process that is new, at
  /// once.
  static constexpr Duration kColumnsEvery = std::chrono::seconds(10);

  /// Goes on after the rows that are there: who is still the same process has no restart.
  Recording(const runtime::Runtime& runtime, RecordingOptions options);

  /// What is sampled from the next tick on, by name. Of two with one name the second is left out.
  void set_targets(const std::vector<Target>& targets);
  /// Samples all targets at once, and keeps the row.
  asio::awaitable<void> tick();
  /// A tick that came too late to stand in its row.
  void miss() { ++state_.missed_rows; }

  const RecordingState& state() const { return state_; }

 private:
  asio::awaitable<void> sample();
  bool wants_columns() const;
  Status keep(metric_trace::Row row);
  std::vector<metric_trace::Restart> restarts() const;
  Status place_columns();
  void stop(const Status& why);

  runtime::Runtime runtime_;
  const RecordingOptions options_;
  std::map<std::string, std::unique_ptr<SampledDaemon>> daemons_;  ///< key: name of the daemon
  /// Key: name of a daemon; which process it was in the last row that was kept.
  std::map<std::string, uint64_t> processes_;
  bool daemons_changed_ = false;                     ///< one has come since the columns were made
  metric_trace::Header header_;                      ///< the columns as they are
  std::unique_ptr<metric_trace::TraceFiles> files_;  ///< none: nothing was kept yet, or the disk failed
  TimePoint columns_at_{}, again_at_{};
  RecordingState state_;
};

}  // namespace kintsugi::recording

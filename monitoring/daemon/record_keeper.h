/// Puts records into a log without anybody waiting for the disk.
#pragma once

#include <deque>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "monitoring/daemon/record_log.h"

namespace kintsugi::monitoring {

/// A disk that hangs or is full costs records, and a line in the log, and nothing else: the disk that the monitor is
/// about to name may be its own.
class RecordKeeper {
 public:
  /// `most_waiting`: records that wait for the disk; when there are more, the oldest is given up.
  RecordKeeper(const runtime::Runtime& runtime, RecordLogOptions options, size_t most_waiting)
      : log_(runtime, std::move(options)), most_waiting_(most_waiting), changed_(runtime), tasks_(runtime) {}

  /// As RecordLog::open, and begins to write.
  asio::awaitable<Status> open(std::function<void(std::string_view record)> read = {});
  void keep(std::string record);
  /// Writes what waits, and ends. REQUIRES: keep() is not called any more.
  asio::awaitable<void> stop();

  uint64_t bytes() const { return log_.bytes(); }
  uint64_t given_up() const { return given_up_; }

 private:
  asio::awaitable<void> write();

  RecordLog log_;
  const size_t most_waiting_;
  std::deque<std::string> waiting_;
  uint64_t given_up_ = 0;
  runtime::Event changed_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::monitoring

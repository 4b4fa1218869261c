/// Control frames on their way out: frames that are appended while a write is under way leave together in the next one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/rpc/buffered_connection.h"
#include "common/rpc/frame.h"
#include "common/rpc/wakeup.h"
#include "common/runtime/clock.h"

namespace kintsugi::rpc {

/// Bounded by its users: a client refuses calls and a server stops reading beyond kMaxQueuedBytes.
class BatchWriter {
 public:
  static constexpr size_t kMaxQueuedBytes = 16 << 20;

  BatchWriter(const asio::any_io_executor& executor, runtime::Clock& clock)
      : clock_(clock), ready_(executor) {}

  void append(const FrameHeader& header, std::string_view message);
  /// Waits for frames and writes all that there are. An error, also kCancelled after stop(), ends the connection.
  asio::awaitable<Status> write_batch(BufferedConnection& connection);
  /// Frames not written yet are dropped.
  void stop();

  bool full() const { return queued_.size() + writing_.size() > kMaxQueuedBytes; }

 private:
  runtime::Clock& clock_;
  Wakeup ready_;
  std::string queued_, writing_;
  bool stopped_ = false;
};

}  // namespace kintsugi::rpc

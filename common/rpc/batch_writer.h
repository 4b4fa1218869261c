/// Control frames on their way out: frames that are appended while a write is under way leave together in the next one.
#pragma once

#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <google/protobuf/message_lite.h>

#include "common/base/status.h"
#include "common/rpc/buffered_connection.h"
#include "common/rpc/frame.h"
#include "common/rpc/wakeup.h"
#include "common/runtime/clock.h"

namespace kintsugi::rpc {

/// What a frame carries: a message, or bytes that are one already. It is a view: what it was made of outlives it.
class FrameBody {
 public:
  FrameBody(const google::protobuf::MessageLite& message)  // NOLINT(google-explicit-constructor)
      : message_(&message), size_(message.ByteSizeLong()) {}
  explicit FrameBody(std::string_view bytes) : bytes_(bytes), size_(bytes.size()) {}

  size_t size() const { return size_; }
  /// Writes size() bytes. REQUIRES: the message is as it was when this was made.
  void write(std::byte* to) const;

 private:
  const google::protobuf::MessageLite* message_ = nullptr;
  std::string_view bytes_;
  size_t size_;
};

/// Bounded by its users: a client refuses calls and a server stops reading beyond kMaxQueuedBytes.
class BatchWriter {
 public:
  static constexpr size_t kMaxQueuedBytes = 16 << 20;

  BatchWriter(const asio::any_io_executor& executor, runtime::Clock& clock)
      : clock_(clock), ready_(executor) {}

  /// Serialises the body straight into the queue.
  void append(const FrameHeader& header, const FrameBody& body);
  /// Waits for frames and writes all that there are. An error, also kCancelled after stop(), ends the connection.
  asio::awaitable<Status> write_batch(BufferedConnection& connection);
  /// Frames not written yet are dropped.
  void stop();

  size_t bytes() const { return queued_.size() + writing_.size(); }
  bool full() const { return bytes() > kMaxQueuedBytes; }

 private:
  runtime::Clock& clock_;
  Wakeup ready_;
  std::string queued_, writing_;
  bool stopped_ = false;
};

}  // namespace kintsugi::rpc

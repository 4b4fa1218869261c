/// The state of a Stream: its connection, how far both sides are, and the watchdog that closes it when nothing moves.
#pragma once

#include <memory>
#include <span>

#include <boost/asio/awaitable.hpp>
#include <google/protobuf/message_lite.h>

#include "common/rpc/buffered_connection.h"
#include "common/rpc/stream.h"

namespace kintsugi::rpc {

struct Stream::State : std::enable_shared_from_this<Stream::State> {
  State(std::shared_ptr<BufferedConnection> connection, runtime::Clock& clock, Method method,
        uint64_t request_id, TimePoint deadline);
  ~State();

  /// Arms the watchdog: one timer, moved only when it fires.
  void watch();
  void set_deadline(TimePoint deadline);
  /// How long a pending operation may make no progress; at most kStreamIdleLimit.
  void set_idle_limit(Duration limit);

  /// These stand around every operation of the connection, so that the watchdog knows whether something is awaited.
  void begin_operation();
  Status end_operation(Status status);

  /// Serializes into `scratch` and writes it with the payload, in pieces of at most kMaxGather buffers.
  asio::awaitable<Status> send_frame(FrameHeader header, const google::protobuf::MessageLite& message,
                                     std::span<const asio::const_buffer> payload);
  void close();

  std::shared_ptr<BufferedConnection> connection;  ///< null once the stream has handed it back
  std::string peer;
  runtime::Clock& clock;
  Method method;
  uint64_t request_id;
  TimePoint deadline;

  runtime::TimerId timer = runtime::TimerId::kNone;
  TimePoint timer_due = TimePoint::max();
  TimePoint last_progress;
  Duration idle_limit = kStreamIdleLimit;
  int pending = 0;
  Status broken;  ///< why the stream is unusable

  // What is waited for, and by whom.
  Context sending, receiving;
  runtime::WaitKind send_wait = runtime::WaitKind::kSend, receive_wait = runtime::WaitKind::kReceive;
  uint64_t target = 0, target_span = 0;
  /// The caller's span; null on the callee's side, and when nothing is recorded.
  std::unique_ptr<StreamSpan> span;

  std::string scratch;
  std::vector<asio::const_buffer> gather;
  Peer::Held large;           ///< what the last frame's header takes of the peer's share, when it is large
  uint32_t payload_left = 0;  ///< bytes of the last frame's payload that have not been received yet
  bool sent_end = false, received_end = false;

 private:
  void on_timer();
};

}  // namespace kintsugi::rpc

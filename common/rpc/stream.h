/// A bulk stream: a sequence of frames each way on a connection that the call owns while it lasts. TCP gives
/// it flow control; closing it is its cancellation.
#pragma once

#include <memory>
#include <span>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <google/protobuf/message_lite.h>

#include "common/base/status.h"
#include "common/rpc/frame.h"
#include "common/runtime/clock.h"
#include "common/runtime/context.h"
#include "common/runtime/network.h"
#include "common/runtime/span.h"

namespace kintsugi::rpc {

class BufferedConnection;

inline constexpr Duration kStreamIdleLimit = std::chrono::seconds(30);

/// A stream as its caller has it: a span of its own, by which the callee's task is found. Recorded when the stream
/// goes.
class StreamSpan : public runtime::Span {
 public:
  StreamSpan(const Context& context, const runtime::Endpoint& to, Method method, std::source_location where);
  uint64_t target() const { return target_; }  ///< what a wait for the peer names as its target

 private:
  uint64_t target_;
};

/// Used from one coroutine for each direction. Every send and receive that makes no progress for
/// kStreamIdleLimit, or outlives the call's deadline, closes the stream with kDeadlineExceeded.
class Stream {
 public:
  /// Frames sent over the stream belong to `method` / `request_id`. Used by Client and Server only.
  Stream(std::shared_ptr<BufferedConnection> connection, runtime::Clock& clock, Method method,
         uint64_t request_id, TimePoint deadline);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// Sends one frame: the protobuf header, then the payload buffers as they are (no copy). REQUIRES:
  /// payload <= kMaxPayloadBytes.
  asio::awaitable<Status> send(const google::protobuf::MessageLite& header,
                               std::span<const asio::const_buffer> payload = {});
  /// Sends the last frame of this side.
  asio::awaitable<Status> send_end(const google::protobuf::MessageLite& header);
  /// Server side: ends the call with an error that the client's next receive reports.
  asio::awaitable<Status> send_error(Status error);

  struct Received {
    /// Size of the payload that receive_payload must fetch before the next receive.
    uint32_t payload_bytes = 0;
    bool end = false;  ///< the peer will send no more
  };
  /// Receives the next frame's protobuf header: fills `data`, or `end` when it is the peer's end frame. An error frame
  /// of the peer comes back as its Status. kCorrupt closes the stream: the header does not parse.
  asio::awaitable<Result<Received>> receive(google::protobuf::MessageLite& data,
                                            google::protobuf::MessageLite& end);
  /// Receives where both messages are of one type.
  asio::awaitable<Result<Received>> receive(google::protobuf::MessageLite& header) {
    return receive(header, header);
  }
  /// Receives the next `into.size()` payload bytes of the frame just received; may be called for part after part.
  /// Closes the stream when they have not come within `idle_limit`.
  asio::awaitable<Status> receive_payload(std::span<std::byte> into, Duration idle_limit = kStreamIdleLimit);

  /// Breaks the call for both sides. Idempotent; pending operations fail.
  void close();
  bool is_open() const;
  std::string peer() const;

  /// Takes the connection out of the stream when both sides ended cleanly, since it may then carry another
  /// call; else null.
  std::shared_ptr<BufferedConnection> take_idle_connection();

  /// What the stream waits for from now on is waited for by the innermost task of `context`: for those who hand a
  /// stream, or one direction of it, to another task than the one that opened it.
  void belongs_to(const Context& context);
  /// `idle`: what comes is not waited for by anybody's operation, as where a coroutine watches for the peer to leave.
  void receiving_belongs_to(const Context& context, bool idle = false);

  // Used by Client and Server only.
  /// Waits of the side that opened the stream are marked in the task of `context`.
  void record(const Context& context, std::unique_ptr<StreamSpan> span);
  /// And those of a handler, whose caller's span is `caller_span`.
  void record_upstream(const Context& context, uint64_t caller_span);
  /// Sends the frame that begins the call.
  asio::awaitable<Status> send_request(const TraceContext& trace,
                                       const google::protobuf::MessageLite& request);
  /// After the handler ended with `outcome`: sends the error, if it is one, and reads on until the client
  /// ended too, so that it gets everything sent to it. When that is not ok, the connection must be closed.
  asio::awaitable<Status> conclude(Status outcome);

 private:
  /// A header for which there is null is skipped.
  asio::awaitable<Result<FrameHeader>> next_frame(google::protobuf::MessageLite* data,
                                                  google::protobuf::MessageLite* end);
  asio::awaitable<Status> discard_payload();

  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kintsugi::rpc

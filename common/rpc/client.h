/// Calls to other daemons over pooled, mutually proven connections.
#pragma once

#include <memory>
#include <source_location>
#include <string>

#include <boost/asio/awaitable.hpp>
#include <google/protobuf/message_lite.h>

#include "common/base/status.h"
#include "common/rpc/frame.h"
#include "common/rpc/secret.h"
#include "common/rpc/stream.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"

namespace kintsugi::rpc {

struct ClientLimits {
  Duration dial_limit = std::chrono::seconds(3);
  Duration default_call_limit = std::chrono::seconds(30);  ///< applies when the Context has no deadline
  size_t max_idle_streams_per_peer = 8;                    ///< connections kept for bulk streams
  Duration idle_limit = std::chrono::seconds(60);
};

/// One per daemon or client. Unary calls to a peer share one connection (what keeps a session has another), many in
/// flight, matched by request id; frames that are ready together are written together. A stream takes a connection of its own from the pool. A broken
/// connection fails its calls with kUnavailable and is dialled anew by the next call: no hidden retries.
class Client {
 public:
  Client(const runtime::Runtime& runtime, Secret secret, ClientLimits limits = {});
  ~Client();  ///< REQUIRES: stop() has returned

  /// For tests. Returns the response's bytes, the error of the peer, kUnavailable, or kDeadlineExceeded.
  asio::awaitable<Result<std::string>> call_raw(Context context, runtime::Endpoint to, Method method,
                                                std::string request);

  /// Fills `response`. Errors: that of the peer, kUnavailable, kDeadlineExceeded, kCorrupt (the response does not
  /// parse). REQUIRES: both messages live until the call has ended.
  asio::awaitable<Status> call(Context context, runtime::Endpoint to, Method method,
                               const google::protobuf::MessageLite& request,
                               google::protobuf::MessageLite& response,
                               std::source_location where = std::source_location::current());

  /// Sends the first frame and hands over the stream. Give the stream back with `finish` for reuse, or just destroy it.
  /// Its waits are those of the context's task; see Stream::belongs_to.
  asio::awaitable<Result<std::unique_ptr<Stream>>> open_stream(
      Context context, runtime::Endpoint to, Method method, const google::protobuf::MessageLite& request,
      std::source_location where = std::source_location::current());
  void finish(runtime::Endpoint to, std::unique_ptr<Stream> stream);

  size_t connections() const;  ///< number of open connections, also idle ones
  asio::awaitable<void> stop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kintsugi::rpc

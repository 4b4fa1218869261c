/// One call that writes a small chunk, whose waiter may leave before the answer is there.
#pragma once

#include <memory>
#include <optional>

#include "client/lib/resources.h"
#include "common/proto/chunk.pb.h"
#include "common/runtime/context.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

/// Shared between its waiter and its own coroutine, so that nobody has to wait for a server that does not answer:
/// unary calls share a connection, which cannot be closed for one of them.
class SmallWrite {
 public:
  static constexpr Duration kLimit = std::chrono::seconds(30);  ///< time limit for the server's answer

  /// Sends the request, in the background. `resources` outlive it.
  static std::shared_ptr<SmallWrite> start(Resources& resources, Context context, runtime::Endpoint to,
                                           proto::WriteSmallChunkRequest request);
  /// Use start().
  SmallWrite(Resources& resources, Context context, runtime::Endpoint to,
             proto::WriteSmallChunkRequest request);

  /// Ok: the chunk is durable. The server's error; kCancelled when leave() was called first.
  asio::awaitable<Status> wait();
  /// Ends the waiting, not the call: the server may still write the chunk.
  void leave();

 private:
  static asio::awaitable<void> run(std::shared_ptr<SmallWrite> self);

  Resources& resources_;
  const Context context_;
  const runtime::Endpoint to_;
  const proto::WriteSmallChunkRequest request_;
  std::optional<Status> outcome_;
  runtime::Event changed_;
};

}  // namespace kintsugi::client

/// The state that a Server shares with the coroutines that serve its connections; they all end before it does.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <vector>

#include "common/rpc/buffered_connection.h"
#include "common/rpc/follower.h"
#include "common/rpc/handshake.h"
#include "common/rpc/peers.h"
#include "common/rpc/rate_limit.h"
#include "common/rpc/refused_tokens.h"
#include "common/rpc/repeats.h"
#include "common/rpc/secret_uses.h"
#include "common/rpc/server.h"
#include "common/rpc/strangers.h"
#include "common/runtime/task_group.h"

namespace kintsugi::rpc {

struct ServerCore : Doorkeeper {
  ServerCore(const runtime::Runtime& runtime, Secret secret, TraceRecorder* recorder, ServerLimits limits)
      : runtime(runtime),
        secret(secret),
        recorder(recorder),
        limits(limits),
        group(runtime),
        repeats(runtime) {}

  runtime::Runtime runtime;
  Secret secret;
  TraceRecorder* recorder;
  ServerLimits limits;
  std::vector<UnaryHandler> unary_handlers{kMethods};
  std::vector<StreamHandler> stream_handlers{kMethods};
  std::shared_ptr<Peers> peers = std::make_shared<Peers>(runtime.executor, runtime.clock);
  std::shared_ptr<SecretUses> uses = std::make_shared<SecretUses>();
  /// The largest answer to each method so far. A request takes that much of its peer's share before it runs: its answer may
  /// have to wait in memory.
  std::vector<size_t> largest_answers = std::vector<size_t>(kMethods);
  std::shared_ptr<ConnectionRegistry> connections = std::make_shared<ConnectionRegistry>();
  Strangers strangers;
  RateLimit complaints{10, std::chrono::minutes(1)};
  /// Lines of the audit log about what tokens were refused. Their holders could fill it until what administrators did is rotated
  /// away.
  RateLimit refusals{60, std::chrono::minutes(1)};
  runtime::TaskGroup group;
  Repeats repeats;
  /// Called when a connection has ended; may be empty.
  std::function<void(uint64_t connection)> connection_ended;
  RefusedTokens refused;
  Server::Admit admit;  ///< may be empty

  Status check(const Principal& by, const std::string& address) override {
    KINTSUGI_TRY(refused.check(by, runtime.clock.wall_now()));
    const size_t open = std::min(connections->size(), limits.max_connections);
    return peers->check_connection(by, address, limits.max_connections - open);
  }

  /// Null when nothing is registered for the method.
  const UnaryHandler* unary_handler(Method method) const { return find(unary_handlers, method); }
  const StreamHandler* stream_handler(Method method) const { return find(stream_handlers, method); }

  Context context_of(const FrameHeader& header, const BufferedConnection& connection) const {
    Context context;
    context.connection = connection.serial();
    if (Follower* const traces = follower())
      context.followed = traces->follows({connection.marks().connection(), header.request_id, header.method});
    if (header.timeout_ms != 0)
      context.deadline = runtime.clock.now() + std::chrono::milliseconds(header.timeout_ms);
    context.trace = {header.trace_id, header.span_id, header.path};
    context.recorder = recorder;
    context.faults = runtime.faults;
    return context;
  }

 private:
  template <class Handler>
  static const Handler* find(const std::vector<Handler>& handlers, Method method) {
    auto index = static_cast<size_t>(method);
    return index < handlers.size() && handlers[index] ? &handlers[index] : nullptr;
  }
};

}  // namespace kintsugi::rpc

/// Accepts connections, proves and checks the cluster secret or a token, and maps each request to one coroutine.
#pragma once

#include <functional>
#include <memory>
#include <unordered_set>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/rpc/frame.h"
#include "common/rpc/handler.h"
#include "common/rpc/secret.h"
#include "common/rpc/stream.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"

namespace kintsugi::rpc {

struct Principal;  // common/rpc/token.h

struct ServerLimits {
  size_t max_connections = 4096;
  /// When so many calls run, the connection is not read until some of them end.
  size_t max_calls_per_connection = 1024;
  Duration handshake_limit = std::chrono::seconds(2);
  /// What the process signs for others is good for so long at most.
  Duration signed_for{};
};

/// Register handlers, then start; stop closes everything and waits for the handlers to end.
///
/// The Context given to a handler has the caller's deadline and trace, and `recorder` as given here.
/// A request by a token needs the right of its method (rights.h), and those that administer are told in the audit log.
/// Anything malformed or unproven closes that connection, with a logged reason (a few a minute), and touches nothing
/// else. How many connections may be unproven at a time is limited, in all and by address (strangers.h). What one peer may
/// have of the server is limited, too: what is over it is not read until there is room (peers.h).
class Server {
 public:
  Server(const runtime::Runtime& runtime, Secret secret, TraceRecorder* recorder, ServerLimits limits = {});
  ~Server();  ///< REQUIRES: stop() has returned

  /// server.handle<&NamespaceService::stat>(Method::kStat, service) maps the method to `asio::awaitable<Status>
  /// NamespaceService::stat(Context, const StatRequest&, StatResponse&)`. The service outlives the server; request and
  /// response live until the call has ended. A request that does not parse is kInvalidArgument.
  template <auto Function, class Service>
  void handle(Method method, Service& service) {
    add(method, detail::unary_of<Function>(service));
  }
  /// Registers a streaming method `asio::awaitable<Status> Service::write(Context, const Request&, Stream&)`. The
  /// handler sends its own end frame; the status it returns is sent as the error frame when it is not ok.
  template <auto Function, class Service>
  void handle_stream(Method method, Service& service) {
    add(method, detail::stream_of<Function>(service));
  }
  /// Registers a function object of that signature, which the server keeps. Tests use it.
  template <class Callable>
  void handle(Method method, Callable callable) {
    auto kept = std::make_shared<Callable>(std::move(callable));
    UnaryHandler handler = detail::unary_of<&Callable::operator()>(*kept);
    handler.kept = std::move(kept);
    add(method, std::move(handler));
  }
  template <class Callable>
  void handle_stream(Method method, Callable callable) {
    auto kept = std::make_shared<Callable>(std::move(callable));
    StreamHandler handler = detail::stream_of<&Callable::operator()>(*kept);
    handler.kept = std::move(kept);
    add(method, std::move(handler));
  }

  /// Has `tell` called with the number (Context::connection) of each proven connection that has ended, but for those
  /// that end because the server stops. REQUIRES: start() was not called.
  void on_connection_ended(std::function<void(uint64_t connection)> tell);

  /// What a daemon asks of requests by tokens, beside the right of the method. It may change the request.
  using Admit =
      std::function<Status(const Principal& by, Method method, google::protobuf::MessageLite& request)>;
  /// REQUIRES: start() was not called.
  void admit_tokens_by(Admit admit);
  /// Tokens with these ids are refused from now on, also on connections that are open. Before the first call all tokens
  /// are: nobody knows which ones are revoked.
  void refuse_tokens(std::unordered_set<uint64_t> ids);
  /// kPermissionDenied or kUnavailable: requests of the token are refused now, whatever they are.
  Status check_token(const Principal& holder) const;

  Status start(const runtime::Endpoint& at);
  runtime::Endpoint local_endpoint() const;
  size_t connections() const;  ///< number of open connections
  /// Peers that have as much of the server as one may have (peers.h).
  struct HeldBack {
    size_t peers = 0;    ///< peers of which requests wait now
    uint64_t times = 0;  ///< how often a request had to wait, or a connection was refused
  };
  HeldBack held_back() const;
  /// The code that a call of the method comes to first, for a debugger or a tracer; null: nothing is registered for it.
  const void* code_of(Method method) const;
  asio::awaitable<void> stop();

 private:
  void add(Method method, UnaryHandler handler);
  void add(Method method, StreamHandler handler);

  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kintsugi::rpc

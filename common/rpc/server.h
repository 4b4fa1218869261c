/// Accepts connections, proves and checks the cluster secret, and maps each request to one coroutine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/rpc/frame.h"
#include "common/rpc/secret.h"
#include "common/rpc/stream.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"

namespace kintsugi::rpc {

struct ServerLimits {
  size_t max_connections = 4096;
  size_t max_calls_per_connection = 1024;  ///< more in flight: the connection is not read until some end
  Duration handshake_limit = std::chrono::seconds(5);
};

/// Register handlers, then start; stop closes everything and waits for the handlers to end.
///
/// The Context given to a handler has the caller's deadline and trace, and `recorder` as given here.
/// Anything malformed or unproven closes that connection with one logged reason and touches nothing else.
class Server {
 public:
  Server(const runtime::Runtime& runtime, Secret secret, sight::Recorder* recorder, ServerLimits limits = {});
  ~Server();  ///< after stop()

  using UnaryHandler = std::function<asio::awaitable<Result<std::string>>(Context, std::string request)>;
  using StreamHandler = std::function<asio::awaitable<Status>(Context, std::string request, Stream& stream)>;
  void handle_raw(Method method, UnaryHandler handler);
  /// The handler sends its own end frame; the status it returns is sent as the error frame when it is not ok.
  void handle_stream_raw(Method method, StreamHandler handler);

  /// `handler`: asio::awaitable<Result<Response>>(Context, Request). A request that does not parse is
  /// kInvalidArgument.
  template <class Request, class Response, class Handler>
  void handle(Method method, Handler handler);
  /// `handler`: asio::awaitable<Status>(Context, Request, Stream&).
  template <class Request, class Handler>
  void handle_stream(Method method, Handler handler);

  Status start(const runtime::Endpoint& at);
  runtime::Endpoint local_endpoint() const;
  asio::awaitable<void> stop();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

template <class Request, class Response, class Handler>
asio::awaitable<Result<std::string>> run_unary(const Handler& handler, Context context, std::string bytes) {
  Request request;
  if (!request.ParseFromString(bytes)) co_return Status{Code::kInvalidArgument, "request does not parse"};
  Result<Response> response = co_await handler(context, std::move(request));
  if (!response) co_return response.error();
  co_return response->SerializeAsString();
}

template <class Request, class Handler>
asio::awaitable<Status> run_stream(const Handler& handler, Context context, std::string bytes,
                                   Stream& stream) {
  Request request;
  if (!request.ParseFromString(bytes)) co_return Status{Code::kInvalidArgument, "request does not parse"};
  co_return co_await handler(context, std::move(request), stream);
}

// The Server keeps the std::function alive for as long as calls run, so the handler reference stays valid.
template <class Request, class Response, class Handler>
void Server::handle(Method method, Handler handler) {
  handle_raw(method, [handler = std::move(handler)](Context context, std::string bytes) {
    return run_unary<Request, Response, Handler>(handler, context, std::move(bytes));
  });
}

template <class Request, class Handler>
void Server::handle_stream(Method method, Handler handler) {
  handle_stream_raw(method,
                    [handler = std::move(handler)](Context context, std::string bytes, Stream& stream) {
                      return run_stream<Request, Handler>(handler, context, std::move(bytes), stream);
                    });
}

}  // namespace kintsugi::rpc

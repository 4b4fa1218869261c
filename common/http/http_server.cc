#include "common/http/http_server.h"

#include <atomic>
#include <map>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "common/http/open_connections.h"
#include "common/http/tuple.h"
#include "common/log/log.h"
#include "common/runtime/production/patient_listen.h"

namespace kintsugi::http {

namespace beast = boost::beast;
using asio::ip::tcp;

namespace {

constexpr auto kRequestLimit = std::chrono::seconds(10);
constexpr auto kPauseAfterFailure = std::chrono::seconds(1);
constexpr size_t kMaxRequestBytes = 16 * 1024;

}  // namespace

struct HttpServer::State {
  explicit State(asio::any_io_executor e) : executor(e), acceptor(e) {}

  asio::any_io_executor executor;
  tcp::acceptor acceptor;
  std::map<std::string, Handler, std::less<>> handlers;
  OpenConnections open;
  asio::thread_pool writer{
      2};  ///< the threads that write the bodies of long pages: one that is slow holds up no other
  std::atomic<bool> stopped = false;
  std::stop_source stopping;

  Response answer(const beast::http::request<beast::http::empty_body>& request) const {
    if (request.method() != beast::http::verb::get) return {405, "text/plain", "only GET is served here\n"};
    const std::string_view target(request.target().data(), request.target().size());
    const size_t mark = target.find('?');
    const auto handler = handlers.find(target.substr(0, mark));
    if (handler == handlers.end()) {
      std::string known = "not found; here are:\n";
      for (const auto& [path, unused] : handlers)
        known += path + "\n";
      return {404, "text/plain", known};
    }
    try {
      return handler->second(mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1));
    } catch (const std::exception& failure) {
      log::error("http: {}: {}", handler->first, failure.what());
      return {500, "text/plain", fmt::format("{} failed: {}\n", handler->first, failure.what())};
    }
  }
};

namespace {

/// Makes the body on the server's thread for that, and comes back to the loop. An exception becomes a 500.
template <class State>
asio::awaitable<void> write_late(State& state, Response& response) {
  const auto initiate = [&](auto handler) {
    asio::post(state.writer, [&state, &response, handler = std::move(handler)]() mutable {
      try {
        if (!state.stopped) response.body = response.late_body();
      } catch (const std::exception& failure) {
        log::error("http: {}", failure.what());
        response = {.status = 500, .body = fmt::format("failed: {}\n", failure.what())};
      }
      asio::post(state.executor, std::move(handler));
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>&, void()>(initiate, asio::use_awaitable);
}

/// `State` is private to HttpServer; the coroutines below take it as a parameter so that it outlives them.
template <class State>
asio::awaitable<void> serve(std::shared_ptr<State> state, tcp::socket socket) {
  beast::tcp_stream stream(std::move(socket));
  OpenConnections::Guard open(state->open, stream);
  beast::flat_buffer buffer(kMaxRequestBytes);
  while (!state->stopped) {
    stream.expires_after(kRequestLimit);
    beast::http::request<beast::http::empty_body> request;
    auto [read_error, read_bytes] = co_await beast::http::async_read(stream, buffer, request, kTuple);
    // A request that was read in the turn in which stop() was called is not answered: the objects that pages show
    // may be gone.
    if (read_error || state->stopped || !open.begin_answer()) break;
    Response response = state->answer(request);
    if (response.late_body) co_await write_late(*state, response);
    if (state->stopped) break;
    beast::http::response<beast::http::string_body> message(beast::http::status(response.status),
                                                            request.version());
    message.set(beast::http::field::content_type, response.content_type);
    message.keep_alive(request.keep_alive());
    message.body() = std::move(response.body);
    message.prepare_payload();
    stream.expires_after(kRequestLimit);
    auto [write_error, written] = co_await beast::http::async_write(stream, message, kTuple);
    if (write_error || !request.keep_alive()) break;
    open.end_answer();
  }
}

template <class State>
asio::awaitable<void> accept_all(std::shared_ptr<State> state) {
  while (!state->stopped) {
    auto [error, socket] = co_await state->acceptor.async_accept(kTuple);
    if (error) {
      if (state->stopped) break;
      // Out of descriptors, say: asking again at once would only burn CPU and fill the log.
      log::warning("http: accept: {}", error.message());
      asio::steady_timer pause(state->executor, kPauseAfterFailure);
      co_await pause.async_wait(kTuple);
      continue;
    }
    asio::co_spawn(state->executor, serve(state, std::move(socket)), asio::detached);
  }
}

}  // namespace

HttpServer::HttpServer(asio::any_io_executor executor) : state_(std::make_shared<State>(executor)) {}

HttpServer::~HttpServer() {
  stop();
}

void HttpServer::handle(std::string path, Handler handler) {
  state_->handlers[std::move(path)] = std::move(handler);
}

Status HttpServer::start(const runtime::Endpoint& at) {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(at.host, error);
  if (error)
    return {Code::kInvalidArgument, fmt::format("http address {}: {}", at.to_string(), error.message())};
  const tcp::endpoint endpoint(address, at.port);
  state_->acceptor.open(endpoint.protocol(), error);
  if (!error) state_->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) runtime::listen_patiently(state_->acceptor, endpoint, error);
  if (error)
    return {Code::kUnavailable, fmt::format("cannot listen on http {}: {}", at.to_string(), error.message())};
  asio::co_spawn(state_->executor, accept_all(state_), asio::detached);
  return {};
}

runtime::Endpoint HttpServer::local_endpoint() const {
  const tcp::endpoint local = state_->acceptor.local_endpoint();
  return {local.address().to_string(), local.port()};
}

std::stop_token HttpServer::stopping() const {
  return state_->stopping.get_token();
}

void HttpServer::stop() {
  if (state_->stopped) return;
  state_->stopped = true;
  state_->stopping.request_stop();
  boost::system::error_code ignored;
  state_->acceptor.close(ignored);
  state_->open.close_all();
  // A body that is being written comes back to the executor, which the caller may end next.
  state_->writer.join();
}

}  // namespace kintsugi::http

#include "common/http/http_server.h"

#include <array>
#include <atomic>
#include <map>
#include <optional>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http.hpp>

#include "common/base/quote.h"
#include "common/http/open_connections.h"
#include "common/log/log.h"
#include "common/rpc/rate_limit.h"

namespace kintsugi::http {

namespace beast = boost::beast;

namespace {

/// No page takes a body: of one that comes, only how much of it is still to come is known.
struct Request : beast::http::request<beast::http::empty_body> {
  bool has_body = false;
  uint64_t body_left = 0;  ///< bytes; UINT64_MAX: its length was not said
};

constexpr auto kRequestLimit = std::chrono::seconds(10);
constexpr size_t kMaxRequestBytes = 16 * 1024;
constexpr size_t kReceivedAtOnce = 4 * 1024;
/// So much of a body is received before its connection is closed.
constexpr uint64_t kMostUnread = 1 << 20;
constexpr auto kUnreadLimit = std::chrono::seconds(1);  ///< and for so long
/// People type tokens into pages: no script but ours may run there, and no page of others may show ours within itself.
constexpr std::string_view kOnlyOwnScripts = "default-src 'self'; base-uri 'none'; frame-ancestors 'none'";
constexpr size_t kMostQuoted = 100;  ///< bytes of a request that an answer quotes

/// Closes the connection when an operation on it takes longer than `limit`.
class Limited {
 public:
  Limited(runtime::Clock& clock, runtime::Connection& connection, Duration limit = kRequestLimit)
      : clock_(clock), timer_(clock.call_at(clock.now() + limit, [&connection] { connection.close(); })) {}
  ~Limited() { clock_.cancel(timer_); }
  Limited(const Limited&) = delete;
  Limited& operator=(const Limited&) = delete;

 private:
  runtime::Clock& clock_;
  runtime::TimerId timer_;
};

/// The next request. `received` holds what was read and not used yet. kInvalidArgument: it is none that is understood.
asio::awaitable<Result<Request>> read_request(runtime::Connection& connection, std::string& received) {
  beast::http::request_parser<beast::http::empty_body> parser;
  parser.header_limit(kMaxRequestBytes);
  parser.body_limit(boost::none);  // it is not read
  while (true) {
    boost::system::error_code error;
    received.erase(0, parser.put(asio::buffer(received), error));
    if (parser.is_header_done()) {
      const bool has_body = !parser.is_done();
      const uint64_t left =
          parser.content_length()
              ? *parser.content_length() - std::min<uint64_t>(*parser.content_length(), received.size())
              : UINT64_MAX;
      co_return Request{parser.release(), has_body, has_body ? left : 0};
    }
    if ((error && error != beast::http::error::need_more) || received.size() > kMaxRequestBytes)
      co_return Status{Code::kInvalidArgument, error.message()};
    const size_t had = received.size();
    received.resize(had + kReceivedAtOnce);
    const Result<size_t> got =
        co_await connection.read_some(std::as_writable_bytes(std::span(received)).subspan(had));
    received.resize(had + (got ? *got : 0));
    if (!got) co_return got.error();
    if (*got == 0) co_return Status{Code::kUnavailable, "end of stream"};
  }
}

std::string_view text_of(const Request& request, beast::http::field field) {
  const auto value = request[field];
  return {value.data(), value.size()};
}

/// Receives what is left of a body, and drops it: a connection that is closed before loses its answer, too.
asio::awaitable<void> drop_body(runtime::Connection& connection, uint64_t left) {
  std::array<std::byte, kReceivedAtOnce> piece;
  for (uint64_t dropped = 0; dropped < std::min(left, kMostUnread);) {
    const Result<size_t> got = co_await connection.read_some(piece);
    if (!got || *got == 0) co_return;
    dropped += *got;
  }
}

struct Target {
  explicit Target(const Request& request) : Target(std::string_view(request.target())) {}
  explicit Target(std::string_view text)
      : path(text.substr(0, text.find('?'))), query(text.substr(std::min(path.size() + 1, text.size()))) {}
  std::string_view path, query;
};

/// A browser says with each POST of which server the page is that sends it. It is ours when it was asked for under the
/// same name: "https://console:9701" and "console:9701".
bool is_foreign(const Request& request) {
  const std::string_view origin = text_of(request, beast::http::field::origin);
  if (origin.empty()) return false;
  const size_t slashes = origin.find("//");
  return slashes == origin.npos ||
         !beast::iequals(origin.substr(slashes + 2), text_of(request, beast::http::field::host));
}

asio::awaitable<Status> write_response(runtime::Connection& connection,
                                       const beast::http::response<beast::http::string_body>& message) {
  beast::http::response_serializer<beast::http::string_body> serializer(message);
  while (!serializer.is_done()) {
    boost::system::error_code error;
    std::vector<asio::const_buffer> parts;
    serializer.next(error, [&](boost::system::error_code&, const auto& buffers) {
      for (auto part = asio::buffer_sequence_begin(buffers); part != asio::buffer_sequence_end(buffers);
           ++part)
        parts.emplace_back(*part);
    });
    if (error) co_return Status{Code::kInternal, error.message()};
    KINTSUGI_CO_TRY(co_await connection.write(parts));
    serializer.consume(asio::buffer_size(parts));
  }
  co_return Status{};
}

}  // namespace

struct HttpServer::State {
  explicit State(const runtime::Runtime& r) : runtime(r) {}

  const runtime::Runtime runtime;
  std::unique_ptr<runtime::Listener> listener;
  std::map<std::string, Handler, std::less<>> handlers;
  std::map<std::string, Changer*, std::less<>> changers;
  const PageGuard* guard = nullptr;
  OpenConnections open;
  asio::thread_pool writer{
      2};  ///< the threads that write the bodies of long pages: one that is slow holds up no other
  std::atomic<bool> stopped = false;
  std::stop_source stopping;
  rpc::RateLimit complaints{10, std::chrono::minutes(1)};

  /// Who sends nothing, or nothing that is understood, is no news; who is refused by TLS is.
  void complain(const runtime::Connection& connection, const Status& why) {
    if (why.code() != Code::kPermissionDenied || !complaints.allow(runtime.clock.now())) return;
    log::warning("http: closing connection from {}: {}", connection.peer(), why.message());
  }

  /// 401 has a browser ask its user for the token.
  std::optional<Response> refusal(const Request& request, const runtime::Connection& connection) const {
    const runtime::PeerProof shown = connection.peer_proof();
    if (guard == nullptr || shown == runtime::PeerProof::kHost) return std::nullopt;
    const Status admitted =
        guard->admit(Target(request).path, text_of(request, beast::http::field::authorization), shown);
    if (admitted.ok()) return std::nullopt;
    const bool denied = admitted.code() == Code::kPermissionDenied;
    return Response{.status = denied ? 401 : 503, .body = admitted.message() + "\n"};
  }

  Response answer(const Request& request) const {
    const Target target(request);
    if (request.has_body && (changers.contains(target.path) || request.method() == beast::http::verb::get))
      return {413, "text/plain", "no body is taken here: what is asked for stands in the query\n"};
    if (changers.contains(target.path)) return {405, "text/plain", "only POST is served here\n"};
    if (request.method() != beast::http::verb::get) return {405, "text/plain", "only GET is served here\n"};
    const auto handler = handlers.find(target.path);
    if (handler == handlers.end()) {
      std::string known = "not found; here are:\n";
      for (const auto& [path, unused] : handlers)
        known += path + "\n";
      return {404, "text/plain", known};
    }
    try {
      return handler->second(target.query);
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
      asio::post(state.runtime.executor, std::move(handler));
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>&, void()>(initiate, asio::use_awaitable);
}

/// REQUIRES: the method is POST, and `changer` is that of the path.
asio::awaitable<Response> answer_change(Changer& changer, const Request& request, std::string peer) {
  if (is_foreign(request))
    co_return Response{.status = 403,
                       .body = fmt::format("refused: a page of {} asks for this, and only one of {} may\n",
                                           quoted(text_of(request, beast::http::field::origin), kMostQuoted),
                                           quoted(text_of(request, beast::http::field::host), kMostQuoted))};
  const Target target(request);
  co_return co_await changer.change(
      {.path = std::string(target.path),
       .query = std::string(target.query),
       .authorization = std::string(text_of(request, beast::http::field::authorization)),
       .peer = std::move(peer)});
}

/// `State` is private to HttpServer; the coroutines below take it as a parameter so that it outlives them.
template <class State>
asio::awaitable<void> serve(std::shared_ptr<State> state, std::unique_ptr<runtime::Connection> connection) {
  OpenConnections::Guard open(state->open, *connection);
  std::string received;
  while (!state->stopped) {
    std::optional<Limited> limited(std::in_place, state->runtime.clock, *connection);
    Result<Request> request = co_await read_request(*connection, received);
    limited.reset();
    if (!request) state->complain(*connection, request.error());
    // A request that was read in the turn in which stop() was called is not answered: the objects that pages show
    // may be gone.
    if (!request || state->stopped || !open.begin_answer()) break;
    const bool posts = request->method() == beast::http::verb::post;
    const auto changer = posts ? state->changers.find(Target(*request).path) : state->changers.end();
    std::optional<Response> refused = state->refusal(*request, *connection);
    Response response;
    if (refused)
      response = std::move(*refused);
    else if (changer != state->changers.end() && !request->has_body)
      response = co_await answer_change(*changer->second, *request, connection->peer());
    else
      response = state->answer(*request);
    if (response.late_body) co_await write_late(*state, response);
    if (state->stopped) break;
    beast::http::response<beast::http::string_body> message(beast::http::status(response.status),
                                                            request->version());
    message.set(beast::http::field::content_type, response.content_type);
    message.set("Content-Security-Policy", kOnlyOwnScripts);
    // A browser asks its user, and would send from then on what it was told, also for pages of others: not with a POST.
    if (response.status == 401)
      message.set(beast::http::field::www_authenticate,
                  posts ? "Bearer realm=\"kintsugi\"" : "Basic realm=\"kintsugi\"");
    const bool goes_on = request->keep_alive() && !request->has_body;
    message.keep_alive(goes_on);
    message.body() = std::move(response.body);
    message.prepare_payload();
    limited.emplace(state->runtime.clock, *connection);
    const Status written = co_await write_response(*connection, message);
    if (written.ok() && request->has_body) {
      limited.emplace(state->runtime.clock, *connection, kUnreadLimit);
      co_await drop_body(*connection, request->body_left);
    }
    if (!written.ok() || !goes_on) break;
    open.end_answer();
  }
}

template <class State>
asio::awaitable<void> accept_all(std::shared_ptr<State> state) {
  while (!state->stopped) {
    auto connection = co_await state->listener->accept();
    if (!connection) break;
    asio::co_spawn(state->runtime.executor, serve(state, std::move(*connection)), asio::detached);
  }
}

}  // namespace

HttpServer::HttpServer(const runtime::Runtime& runtime) : state_(std::make_shared<State>(runtime)) {}

HttpServer::~HttpServer() {
  stop();
}

void HttpServer::handle(std::string path, Handler handler) {
  state_->handlers[std::move(path)] = std::move(handler);
}

void HttpServer::change_by(std::string path, Changer& changer) {
  state_->changers[std::move(path)] = &changer;
}

void HttpServer::guard_by(const PageGuard& guard) {
  state_->guard = &guard;
}

Status HttpServer::start(const runtime::Endpoint& at) {
  KINTSUGI_ASSIGN(state_->listener, state_->runtime.network.listen_for_pages(at));
  asio::co_spawn(state_->runtime.executor, accept_all(state_), asio::detached);
  return {};
}

runtime::Endpoint HttpServer::local_endpoint() const {
  return state_->listener->local_endpoint();
}

std::stop_token HttpServer::stopping() const {
  return state_->stopping.get_token();
}

void HttpServer::stop() {
  if (state_->stopped) return;
  state_->stopped = true;
  state_->stopping.request_stop();
  if (state_->listener) state_->listener->close();
  state_->open.close_all();
  // A body that is being written comes back to the executor, which the caller may end next.
  state_->writer.join();
}

}  // namespace kintsugi::http

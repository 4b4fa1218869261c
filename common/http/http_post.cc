#include "common/http/http_post.h"

#include <algorithm>
#include <memory>
#include <optional>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include "common/http/tuple.h"

namespace kintsugi::http {

namespace beast = boost::beast;
using asio::ip::tcp;

namespace {

/// An answer may be so long; only its status is wanted.
constexpr uint64_t kMostAnswer = 1 << 20;

Status failed(const Url& to, const boost::system::error_code& error) {
  return {Code::kUnavailable, fmt::format("http://{}:{}{}: {}", to.host, to.port, to.path, error.message())};
}

/// A look-up of a name. The system's call cannot be broken off: whoever waited leaves, and it ends by itself.
struct LookUp {
  LookUp(const asio::any_io_executor& executor, std::chrono::steady_clock::time_point deadline)
      : resolver(executor), over(executor, deadline) {}

  tcp::resolver resolver;
  asio::steady_timer over;  ///< the deadline; cancelled when the answer has come
  std::optional<boost::system::error_code> error;
  tcp::resolver::results_type endpoints;
};

asio::awaitable<Result<tcp::resolver::results_type>> look_up(asio::any_io_executor executor, const Url& to,
                                                             std::chrono::steady_clock::time_point deadline) {
  const auto call = std::make_shared<LookUp>(executor, deadline);
  call->resolver.async_resolve(to.host, to.port, [call](const auto& error, auto endpoints) {
    call->error = error;
    call->endpoints = std::move(endpoints);
    call->over.cancel();
  });
  (void)co_await call->over.async_wait(kTuple);
  const boost::system::error_code error = call->error.value_or(asio::error::timed_out);
  if (error) co_return failed(to, error);
  co_return call->endpoints;
}

}  // namespace

Result<Url> Url::parse(std::string_view text) {
  constexpr std::string_view kScheme = "http://";
  const Status invalid{Code::kInvalidArgument, fmt::format("\"{}\" is no http://host:port/path", text)};
  if (!text.starts_with(kScheme)) return invalid;
  text.remove_prefix(kScheme.size());
  const size_t slash = std::min(text.find('/'), text.size());
  const std::string_view authority = text.substr(0, slash);
  const size_t colon = authority.rfind(':');
  const bool has_port = colon != std::string_view::npos && !authority.ends_with(']');
  std::string_view host = has_port ? authority.substr(0, colon) : authority;
  const std::string_view port = has_port ? authority.substr(colon + 1) : "80";
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto is_printable = [](char c) { return c > ' ' && c < 0x7F; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (host.empty() || port.empty() || port.size() > 5 || !std::ranges::all_of(port, is_digit) ||
      !std::ranges::all_of(text, is_printable))
    return invalid;
  return Url{.host = std::string(host),
             .port = std::string(port),
             .path = slash < text.size() ? std::string(text.substr(slash)) : "/"};
}

asio::awaitable<Result<int>> post(asio::any_io_executor executor, Url to, std::string content_type,
                                  std::string body, Duration limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  const auto endpoints = co_await look_up(executor, to, deadline);
  if (!endpoints) co_return endpoints.error();
  beast::tcp_stream stream(executor);
  stream.expires_at(deadline);
  auto [connect_error, endpoint] = co_await stream.async_connect(*endpoints, kTuple);
  if (connect_error) co_return failed(to, connect_error);
  beast::http::request<beast::http::string_body> request(beast::http::verb::post, to.path, 11);
  request.set(beast::http::field::host, to.host + ":" + to.port);
  request.set(beast::http::field::content_type, content_type);
  request.set(beast::http::field::connection, "close");
  request.body() = std::move(body);
  request.prepare_payload();
  auto [write_error, written] = co_await beast::http::async_write(stream, request, kTuple);
  if (write_error) co_return failed(to, write_error);
  beast::flat_buffer buffer;
  beast::http::response_parser<beast::http::string_body> answer;
  answer.body_limit(kMostAnswer);
  auto [read_error, read] = co_await beast::http::async_read(stream, buffer, answer, kTuple);
  if (read_error) co_return failed(to, read_error);
  co_return static_cast<int>(answer.get().result_int());
}

}  // namespace kintsugi::http

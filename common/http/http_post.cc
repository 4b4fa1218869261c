#include "common/http/http_post.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <fmt/format.h>

#include "common/http/tuple.h"

namespace kintsugi::http {

using asio::ip::tcp;

namespace {

constexpr size_t kMostStatusLine = 1024;

Status failed(const Url& to, const boost::system::error_code& error) {
  return {Code::kUnavailable, fmt::format("http://{}:{}{}: {}", to.host, to.port, to.path, error.message())};
}

/// The number in "HTTP/1.1 200 OK".
Result<int> status_of(std::string_view answer, const Url& to) {
  constexpr size_t kNumberAt = 9, kDigits = 3;
  int status = 0;
  if (answer.starts_with("HTTP/1.") && answer.size() > kNumberAt + kDigits) {
    const char* const digits = answer.data() + kNumberAt;
    const auto [end, error] = std::from_chars(digits, digits + kDigits, status);
    if (error == std::errc() && end == digits + kDigits) return status;
  }
  return Status(Code::kUnavailable, fmt::format("http://{}:{} is no HTTP server", to.host, to.port));
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
  boost::beast::tcp_stream stream(executor);
  stream.expires_at(deadline);
  auto [connect_error, endpoint] = co_await stream.async_connect(*endpoints, kTuple);
  if (connect_error) co_return failed(to, connect_error);
  // Beast's requests and answers would cost each build seven seconds, and all that is wanted is one number.
  const std::string request = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}:{}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: "
      "close\r\n\r\n{}",
      to.path, to.host, to.port, content_type, body.size(), body);
  auto [write_error, written] = co_await asio::async_write(stream, asio::buffer(request), kTuple);
  if (write_error) co_return failed(to, write_error);
  std::string answer;
  auto [read_error, length] =
      co_await asio::async_read_until(stream, asio::dynamic_buffer(answer, kMostStatusLine), "\r\n", kTuple);
  if (read_error) co_return failed(to, read_error);
  co_return status_of(answer, to);
}

}  // namespace kintsugi::http

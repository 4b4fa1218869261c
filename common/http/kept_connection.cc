#include "common/http/kept_connection.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "common/base/quote.h"

namespace kintsugi::http {
namespace {

constexpr size_t kReadAtOnce = 16 << 10;
constexpr size_t kMostHead = 16 << 10;
constexpr size_t kMostOfALine = 300;
constexpr std::string_view kHeadEnd = "\r\n\r\n";

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// The value in "Name: value", when the line has that name.
bool take_field(std::string_view line, std::string_view name, std::string_view& value) {
  if (line.size() <= name.size() || line[name.size()] != ':') return false;
  if (!std::ranges::equal(line.substr(0, name.size()), name, {}, lower, lower)) return false;
  value = line.substr(name.size() + 1);
  while (!value.empty() && value.front() == ' ')
    value.remove_prefix(1);
  return true;
}

/// Ok when this is the head of an answer 200; kCorrupt when it is no HTTP; kNotFound says which other answer it is.
Status check_answer(std::string_view head) {
  if (!head.starts_with("HTTP/1.")) return {Code::kCorrupt, "this is no HTTP server"};
  const std::string_view status = head.substr(0, head.find("\r\n"));
  if (status.size() >= 12 && status.substr(8, 4) == " 200") return {};
  return {Code::kNotFound, fmt::format("the answer is {}", quoted(status, kMostOfALine))};
}

Result<size_t> content_length(std::string_view head) {
  while (!head.empty()) {
    const size_t end = std::min(head.find("\r\n"), head.size());
    std::string_view value;
    if (take_field(head.substr(0, end), "content-length", value)) {
      size_t bytes = 0;
      const auto parsed = std::from_chars(value.data(), value.data() + value.size(), bytes);
      if (parsed.ec == std::errc() && parsed.ptr == value.data() + value.size()) return bytes;
      break;
    }
    head.remove_prefix(std::min(end + 2, head.size()));
  }
  return Status(Code::kCorrupt, "the answer has no length");
}

}  // namespace

Result<size_t> body_length(std::string_view head) {
  KINTSUGI_TRY(check_answer(head));
  return content_length(head);
}

asio::awaitable<Result<std::string>> KeptConnection::get(std::string path, TimePoint deadline) {
  if (!is_open()) {
    buffer_.clear();
    KINTSUGI_CO_ASSIGN(connection_, co_await runtime_.network.dial(to_, deadline));
  }
  bool late = false;
  const runtime::TimerId timer = runtime_.clock.call_at(deadline, [this, &late] {
    late = true;
    connection_->close();
  });
  auto body = co_await ask(std::move(path));
  runtime_.clock.cancel(timer);
  if (body) co_return std::move(*body);
  connection_.reset();
  if (late) co_return Status(Code::kDeadlineExceeded, fmt::format("{} did not answer", to_.to_string()));
  co_return body.error().with_context(to_.to_string());
}

asio::awaitable<Status> KeptConnection::fill(size_t bytes) {
  while (buffer_.size() < bytes) {
    const size_t had = buffer_.size();
    buffer_.resize(had + kReadAtOnce);
    const auto got =
        co_await connection_->read_some(std::as_writable_bytes(std::span(buffer_.data() + had, kReadAtOnce)));
    buffer_.resize(had + (got ? *got : 0));
    if (!got) co_return got.error();
    if (*got == 0) co_return Status{Code::kUnavailable, "the connection was closed"};
  }
  co_return Status{};
}

asio::awaitable<Result<std::string>> KeptConnection::ask(std::string path) {
  const std::string request = fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", path, to_.to_string());
  const asio::const_buffer parts[] = {asio::buffer(request)};
  KINTSUGI_CO_TRY(co_await connection_->write(parts));
  size_t head = std::string::npos;
  while ((head = buffer_.find(kHeadEnd)) == std::string::npos) {
    if (buffer_.size() > kMostHead) co_return Status(Code::kCorrupt, "the head of the answer has no end");
    KINTSUGI_CO_TRY(co_await fill(buffer_.size() + 1));
  }
  Status answered = check_answer(std::string_view(buffer_).substr(0, head));
  const auto length = content_length(std::string_view(buffer_).substr(0, head));
  if (!answered.ok() && (!length || *length == 0)) co_return answered;
  KINTSUGI_CO_ASSIGN(const size_t bytes, length);
  if (bytes > kMostBytes) co_return Status(Code::kLimitExceeded, fmt::format("an answer of {} bytes", bytes));
  const size_t begin = head + kHeadEnd.size();
  KINTSUGI_CO_TRY(co_await fill(begin + bytes));
  std::string body = buffer_.substr(begin, bytes);
  buffer_.erase(0, begin + bytes);
  // The first line of what is no page says why.
  if (!answered.ok())
    co_return Status(answered.code(), fmt::format("{}: {}", answered.message(),
                                                  quoted(body.substr(0, body.find('\n')), kMostOfALine)));
  co_return body;
}

}  // namespace kintsugi::http

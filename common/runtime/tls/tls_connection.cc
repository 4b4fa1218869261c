#include "common/runtime/tls/tls_connection.h"

#include <algorithm>
#include <cstring>

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include "common/base/assert.h"

namespace kintsugi::runtime {
namespace {

constexpr size_t kHandshakeBytes = 4 << 10;
/// So much is encrypted before it is sent: it stays in the processor's cache.
constexpr size_t kSendAtOnce = 128 << 10;
constexpr size_t kReceiveAtOnce = 128 << 10;
/// What TLS adds to a record: five bytes of header, a kind and a tag.
constexpr size_t kRecordOverhead = 22;
/// Reads of at least so many bytes let the kernel collect them (TcpConnection).
constexpr size_t kCollectedBytes = 64 << 10;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_http(std::string_view begin) {
  return begin.starts_with("GET ") || begin.starts_with("HEAD ") || begin.starts_with("POST ") ||
         begin.starts_with("PUT ");
}

}  // namespace

TlsConnection::TlsConnection(std::unique_ptr<Connection> connection, std::unique_ptr<TlsSession> session,
                             TlsEnd end, Clock& clock)
    : connection_(std::move(connection)), session_(std::move(session)), end_(end), clock_(clock) {}

asio::awaitable<Status> TlsConnection::shake_hands() {
  if (handshake_ == Handshake::kNotBegun) {
    handshake_ = Handshake::kUnderWay;
    failure_ = co_await carry_out_handshake();
    handshake_ = failure_.ok() ? Handshake::kDone : Handshake::kFailed;
    if (settled_) settled_->notify_all();
    co_return failure_;
  }
  if (!settled_) settled_.emplace(co_await asio::this_coro::executor, clock_);
  while (handshake_ == Handshake::kUnderWay)
    co_await settled_->wait();
  co_return failure_;
}

asio::awaitable<Status> TlsConnection::carry_out_handshake() {
  bool heard = false;
  while (true) {
    const Result<bool> done = session_->shake_hands();
    // Also after a failure: it says why.
    const Status sent = co_await flush();
    if (!done) co_return done.error();
    KINTSUGI_CO_TRY(sent);
    if (*done) co_return Status{};
    const Result<bool> more = co_await fill(kHandshakeBytes);
    if (!more && (heard || more.error().code() != Code::kUnavailable)) co_return more.error();
    if (!more || !*more) co_return hung_up(heard);
    if (end_ != TlsEnd::kClient && !heard && text_of(session_->input())[0] != kTlsHello[0])
      co_return co_await answer_plain_peer();
    heard = true;
  }
}

Status TlsConnection::hung_up(bool heard) const {
  // A server that does not speak TLS closes when it reads the first bytes.
  const bool knows_none = end_ == TlsEnd::kClient && !heard;
  return {Code::kUnavailable, knows_none
                                  ? "tls: the connection was ended in the handshake: does TLS answer there?"
                                  : "tls: the peer ended the connection in the handshake"};
}

asio::awaitable<Status> TlsConnection::answer_plain_peer() {
  constexpr std::string_view kWanted = "this address speaks TLS only, with a certificate of the cluster\n";
  const std::string answer =
      is_http(text_of(session_->input()))
          ? fmt::format(
                "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n"
                "Connection: close\r\n\r\n{}",
                kWanted.size(), kWanted)
          : fmt::format("{}{}", kTlsWanted, kWanted);
  const asio::const_buffer buffer(answer.data(), answer.size());
  // Whether it arrives or not, the peer is refused.
  (void)co_await connection_->write(std::span(&buffer, 1));
  co_return Status{Code::kPermissionDenied, "tls: the peer does not speak TLS, and other hosts have to"};
}

asio::awaitable<Result<bool>> TlsConnection::fill(size_t wanted) {
  const Result<size_t> got = co_await connection_->read_some(session_->room(wanted));
  if (!got) co_return got.error();
  session_->filled(*got);
  co_return *got > 0;
}

asio::awaitable<Status> TlsConnection::flush() {
  std::vector<std::byte>& output = session_->output();
  if (output.empty()) co_return Status{};
  // While this is sent, a reader may make the session say more. That leaves with the next write.
  std::swap(output, sending_);
  const asio::const_buffer buffer(sending_.data(), sending_.size());
  const Status sent = co_await connection_->write(std::span(&buffer, 1));
  sending_.clear();
  if (output.empty()) std::swap(output, sending_);
  co_return sent;
}

asio::awaitable<Result<size_t>> TlsConnection::read_some(std::span<std::byte> into) {
  KINTSUGI_ASSERT(!into.empty());
  if (handshake_ != Handshake::kDone) KINTSUGI_CO_TRY(co_await shake_hands());
  while (true) {
    const Result<size_t> got = session_->read(into);
    if (!got || *got > 0 || session_->ended()) co_return got;
    KINTSUGI_CO_ASSIGN(const bool more,
                       co_await fill(std::min(into.size() + kRecordOverhead, kReceiveAtOnce)));
    if (!more) co_return size_t{0};
  }
}

asio::awaitable<Status> TlsConnection::read_exact(std::span<std::byte> into) {
  if (handshake_ != Handshake::kDone) KINTSUGI_CO_TRY(co_await shake_hands());
  while (true) {
    KINTSUGI_CO_ASSIGN(const size_t got, session_->read(into));
    into = into.subspan(got);
    if (into.empty()) co_return Status{};
    if (session_->ended()) co_return Status{Code::kUnavailable, "end of stream"};
    // The session may hold nearly a record of what is missing. The rest is still to come, and it is known how much.
    const size_t held = TlsSession::kRecordBytes + session_->input().size();
    const size_t certain = into.size() > held ? std::min(into.size() - held, kReceiveAtOnce) : 0;
    if (certain >= kCollectedBytes) {
      const std::span<std::byte> room = session_->room(certain).first(certain);
      KINTSUGI_CO_TRY(co_await connection_->read_exact(room));
      session_->filled(certain);
      continue;
    }
    KINTSUGI_CO_ASSIGN(const bool more,
                       co_await fill(std::min(into.size() + kRecordOverhead, kReceiveAtOnce)));
    if (!more) co_return Status{Code::kUnavailable, "end of stream"};
  }
}

asio::awaitable<Status> TlsConnection::write(std::span<const asio::const_buffer> buffers) {
  KINTSUGI_ASSERT(buffers.size() <= kMaxGather);
  if (handshake_ != Handshake::kDone) KINTSUGI_CO_TRY(co_await shake_hands());
  // Small parts share records. Nothing is left in `small_` when the coroutine is suspended.
  for (asio::const_buffer rest : buffers) {
    while (rest.size() > 0) {
      const auto* begin = static_cast<const std::byte*>(rest.data());
      const bool whole = small_.empty() && rest.size() >= TlsSession::kRecordBytes;
      const size_t bytes =
          whole ? std::min(rest.size() / TlsSession::kRecordBytes * TlsSession::kRecordBytes, kSendAtOnce)
                : std::min(rest.size(), TlsSession::kRecordBytes - small_.size());
      if (!whole) small_.insert(small_.end(), begin, begin + bytes);
      rest += bytes;
      if (!whole && small_.size() < TlsSession::kRecordBytes) continue;
      KINTSUGI_CO_TRY(session_->write(whole ? std::span(begin, bytes) : std::span<const std::byte>(small_)));
      small_.clear();
      if (session_->output().size() >= kSendAtOnce) KINTSUGI_CO_TRY(co_await flush());
    }
  }
  if (!small_.empty()) KINTSUGI_CO_TRY(session_->write(small_));
  small_.clear();
  co_return co_await flush();
}

}  // namespace kintsugi::runtime

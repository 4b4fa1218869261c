/// A connection that is encrypted, over one that is not.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "common/runtime/event.h"
#include "common/runtime/network.h"
#include "common/runtime/tls/tls_session.h"

namespace kintsugi::runtime {

/// Shakes hands in its first operation, so that whoever bounds the time or the number of new connections bounds
/// handshakes, too. A read or write fails as TlsSession::shake_hands says; the peer is told why.
///
/// The end of the stream is not proven: whoever is on the way may cut a connection off at any byte. What runs over it
/// says how long it is, as it has to on a connection that may break.
class TlsConnection final : public Connection {
 public:
  /// `clock` outlives it.
  TlsConnection(std::unique_ptr<Connection> connection, std::unique_ptr<TlsSession> session, TlsEnd end,
                Clock& clock);

  asio::awaitable<Result<size_t>> read_some(std::span<std::byte> into) override;
  asio::awaitable<Status> read_exact(std::span<std::byte> into) override;
  asio::awaitable<Status> write(std::span<const asio::const_buffer> buffers) override;
  void expect_rate(double bytes_per_second) override { connection_->expect_rate(bytes_per_second); }
  void close() override { connection_->close(); }
  bool is_open() const override { return connection_->is_open(); }
  std::string peer() const override { return connection_->peer(); }
  PeerProof peer_proof() const override { return session_->peer_proof(); }

 private:
  enum class Handshake { kNotBegun, kUnderWay, kDone, kFailed };

  /// Returns once the handshake is over. The first of a reader and a writer carries it out.
  asio::awaitable<Status> shake_hands();
  asio::awaitable<Status> carry_out_handshake();
  /// Reads once from the peer; false at the end of the stream.
  asio::awaitable<Result<bool>> fill(size_t wanted);
  /// Sends what the session has to send.
  asio::awaitable<Status> flush();
  /// The peer ended the connection before the handshake was over; `heard`: after it had said something.
  Status hung_up(bool heard) const;
  /// Tells a peer that does not speak TLS what is wanted here, in words that it shows to its user.
  asio::awaitable<Status> answer_plain_peer();

  std::unique_ptr<Connection> connection_;
  std::unique_ptr<TlsSession> session_;
  const TlsEnd end_;
  Clock& clock_;
  Handshake handshake_ = Handshake::kNotBegun;
  Status failure_;                ///< failure of the handshake
  std::optional<Event> settled_;  ///< waits for the handshake's end
  std::vector<std::byte> sending_, small_;
};

/// How a server at which TLS is wanted begins its answer to a peer that speaks our own protocol without it.
inline constexpr std::string_view kTlsWanted{"\x15\x03\x03\x00\x02\x02\x46", 7};
/// How a peer begins that speaks TLS.
inline constexpr std::string_view kTlsHello{"\x16\x03", 2};

}  // namespace kintsugi::runtime

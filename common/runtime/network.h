/// Byte streams between endpoints, as a parameter: TCP in production, an in-memory network with latency,
/// bandwidth, loss and partitions in the simulator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>

#include "common/base/status.h"
#include "common/runtime/clock.h"

namespace kintsugi {
namespace asio = boost::asio;
}

namespace kintsugi::runtime {

struct Endpoint {
  std::string host;  ///< IPv4 or IPv6 address or a name
  uint16_t port = 0;

  /// "host:port" or "[v6]:port".
  static Result<Endpoint> parse(std::string_view text);
  std::string to_string() const;
  /// Returns true if the host stands for all addresses of a machine.
  bool is_wildcard() const { return host == "0.0.0.0" || host == "::"; }
  auto operator<=>(const Endpoint&) const = default;
};

class TaskGroup;

/// A peer shows one of these before it says anything over a connection.
enum class PeerProof : uint8_t {
  kNothing,      ///< it speaks TLS, and has no certificate (Network::listen_for_pages)
  kCertificate,  ///< one of the cluster's authority, as clients have it
  kHost,         ///< one of a host of the cluster; or nothing has to be shown here, since there is no TLS
};

/// One byte stream. At most one read and one write may be pending at a time. `close` may be called at any
/// time. Destroying it closes it; no operation may be pending then.
class Connection {
 public:
  virtual ~Connection() = default;

  /// At least 1 byte, at most `into.size()`; 0 only at the end of the stream.
  virtual asio::awaitable<Result<size_t>> read_some(std::span<std::byte> into) = 0;
  /// Fills `into`; kUnavailable when the stream ends first.
  virtual asio::awaitable<Status> read_exact(std::span<std::byte> into) = 0;
  /// Writes all buffers in order (one gathered system call where possible). At most kMaxGather buffers.
  virtual asio::awaitable<Status> write(std::span<const asio::const_buffer> buffers) = 0;

  /// A hint: the stream comes over a link of this rate. The peer may then have as much under way as the round
  /// trip and a millisecond need, not more, so that streams that meet in the link do not fill the queue
  /// before it: they would take it in turns to lose packets and share the link unevenly.
  virtual void expect_rate(double /*bytes_per_second*/) {}

  /// Idempotent. Pending and later operations fail with kCancelled; the peer sees the end of the stream.
  virtual void close() = 0;
  virtual bool is_open() const = 0;
  virtual std::string peer() const = 0;  ///< the peer's address as text, for logs
  /// REQUIRES: something was received.
  virtual PeerProof peer_proof() const = 0;

  static constexpr size_t kMaxGather = 64;
};

class Listener {
 public:
  virtual ~Listener() = default;
  /// kCancelled after close(). Errors of a single connection are retried inside.
  virtual asio::awaitable<Result<std::unique_ptr<Connection>>> accept() = 0;
  virtual void close() = 0;
  virtual Endpoint local_endpoint() const = 0;
};

class Network {
 public:
  virtual ~Network() = default;
  /// kDeadlineExceeded, kUnavailable when refused or unreachable, or kCancelled when this side ends, or as soon as
  /// `stops_with`, which outlives the dial, is asked to stop. The message begins with the address.
  virtual asio::awaitable<Result<std::unique_ptr<Connection>>> dial(Endpoint to, TimePoint deadline,
                                                                    TaskGroup* stops_with = nullptr) = 0;
  /// Port 0 picks a free one.
  virtual Result<std::unique_ptr<Listener>> listen(Endpoint at) = 0;
  /// Listens for a server that asks its peers for another proof than a certificate: over TLS, too, they need none.
  virtual Result<std::unique_ptr<Listener>> listen_for_pages(Endpoint at) { return listen(std::move(at)); }
};

}  // namespace kintsugi::runtime

/// One TCP stream. Tries the system call first and waits for readiness only when the socket has nothing to give.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "common/runtime/network.h"
#include "common/runtime/production/tcp_losses.h"

namespace kintsugi::runtime {

class TcpConnection final : public Connection {
 public:
  /// Takes a connected socket; turns Nagle's delay off and probes of an idle peer on.
  /// What it loses is counted for `end`.
  TcpConnection(asio::ip::tcp::socket socket, std::shared_ptr<TcpLosses> losses, std::string end);
  ~TcpConnection() override;
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  asio::awaitable<Result<size_t>> read_some(std::span<std::byte> into) override;
  asio::awaitable<Status> read_exact(std::span<std::byte> into) override;
  asio::awaitable<Status> write(std::span<const asio::const_buffer> buffers) override;
  void expect_rate(double bytes_per_second) override;
  void close() override;
  bool is_open() const override { return socket_.is_open(); }
  std::string peer() const override { return peer_; }
  PeerProof peer_proof() const override { return PeerProof::kHost; }

 private:
  /// Returns the bytes received (0: end of stream), or a negative errno; -EAGAIN when there is nothing yet.
  ssize_t receive(std::span<std::byte> into);
  /// Sends as much of `buffers`, without the first `skip_bytes` of the first one, as the kernel takes;
  /// returns like send(2).
  ssize_t send(std::span<const asio::const_buffer> buffers, size_t skip_bytes);
  asio::awaitable<void> wait(asio::ip::tcp::socket::wait_type type);
  /// Has the kernel report readable only once `bytes` are there, so that bulk reads wake seldom.
  void set_low_water(size_t bytes);
  /// True when this connection has worked long enough without suspending: others on the executor are to get a turn.
  bool must_yield(size_t bytes);
  asio::awaitable<void> yield();
  Status failure(std::string_view operation, int error) const;

  asio::ip::tcp::socket socket_;
  const std::shared_ptr<TcpLosses> losses_;
  std::string peer_;
  bool drained_ = true;  // the last read_some emptied the socket: another attempt at once would find nothing
  size_t low_water_bytes_ = 1;
  size_t bytes_since_yield_ = 0;
};

}  // namespace kintsugi::runtime

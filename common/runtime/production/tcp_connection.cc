#include "common/runtime/production/tcp_connection.h"

#include <array>
#include <cerrno>
#include <fstream>

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "common/base/assert.h"

namespace kintsugi::runtime {

namespace {

using asio::ip::tcp;

constexpr size_t kBulkBytes = 64 << 10;          // reads of at least so many bytes use a low-water mark
constexpr size_t kMaxLowWaterBytes = 1 << 20;    // 256 KiB costs 15 % more CPU a byte, see runtime_bench
constexpr double kReadWithinSeconds = 1e-3;      // bytes that have arrived are read within this time
constexpr size_t kMinReceiveBytes = 128 << 10;   // 1 Gbit/s is no slower with that
constexpr size_t kMinReceiveSegments = 8;        // with fewer segments, the two kernels wait for each other
constexpr size_t kBytesBetweenYields = 4 << 20;  // about a millisecond of copying
constexpr size_t kOperationWeightBytes = 16 << 10;  // a small operation costs about as much as copying this

// A peer that lost its power or its network says nothing: after this long the kernel gives up a connection, whether it
// is idle or has data under way. Without the last one the kernel sends again for a quarter of an hour. A process that
// stands still with its window full counts as gone too, and must be given longer than clients wait for a metaserver
// that pauses.
constexpr int kProbeAfterIdleSeconds = 20;
constexpr int kProbeIntervalSeconds = 5;
constexpr int kProbes = 4;
constexpr unsigned kUnacknowledgedMilliseconds = 40'000;

/// Has the kernel find out when the peer is gone. Fails only when the peer has gone already, which the first read
/// reports.
void notice_a_lost_peer(int fd) {
  const int on = 1;
  (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kProbeAfterIdleSeconds, sizeof(int));
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeIntervalSeconds, sizeof(int));
  (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(int));
  (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMilliseconds, sizeof(unsigned));
}

/// The largest receive buffer that a process may ask the kernel for. 0: unknown.
size_t max_receive_bytes() {
  static const size_t bytes = [] {
    size_t value = 0;
    std::ifstream("/proc/sys/net/core/rmem_max") >> value;
    return value;
  }();
  return bytes;
}

std::string name_of(const tcp::socket& socket) {
  boost::system::error_code error;
  tcp::endpoint remote = socket.remote_endpoint(error);
  if (error) return "unknown peer";
  return Endpoint{remote.address().to_string(), remote.port()}.to_string();
}

}  // namespace

TcpConnection::TcpConnection(tcp::socket socket, std::shared_ptr<TcpLosses> losses, std::string end)
    : socket_(std::move(socket)), losses_(std::move(losses)), peer_(name_of(socket_)) {
  // Setting an option fails only when the peer has gone already, which the first read reports.
  boost::system::error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  notice_a_lost_peer(socket_.native_handle());
  losses_->opened(socket_.native_handle(), std::move(end));
}

TcpConnection::~TcpConnection() {
  close();
}

asio::awaitable<Result<size_t>> TcpConnection::read_some(std::span<std::byte> into) {
  KINTSUGI_ASSERT(!into.empty());
  ssize_t received = drained_ ? -EAGAIN : receive(into);
  if (received == -EAGAIN && socket_.is_open()) {
    // Asio tries once more before it waits, which spares us the trial above when the last one emptied the socket.
    set_low_water(1);
    bytes_since_yield_ = 0;
    boost::system::error_code error;
    size_t bytes = co_await socket_.async_read_some(asio::buffer(into.data(), into.size()),
                                                    asio::redirect_error(asio::use_awaitable, error));
    received = error && error != asio::error::eof ? -error.value() : static_cast<ssize_t>(bytes);
  }
  if (received < 0) co_return failure("read", socket_.is_open() ? static_cast<int>(-received) : ECANCELED);
  drained_ = static_cast<size_t>(received) < into.size();
  if (must_yield(static_cast<size_t>(received))) co_await yield();
  co_return static_cast<size_t>(received);
}

asio::awaitable<Status> TcpConnection::read_exact(std::span<std::byte> into) {
  while (!into.empty()) {
    ssize_t received = receive(into);
    if (received == 0) co_return Status{Code::kUnavailable, "end of stream"};
    if (received > 0) {
      into = into.subspan(static_cast<size_t>(received));
      if (must_yield(static_cast<size_t>(received))) co_await yield();
      continue;
    }
    if (received != -EAGAIN) co_return failure("read", static_cast<int>(-received));
    set_low_water(into.size() < kBulkBytes ? 1 : std::min(into.size(), kMaxLowWaterBytes));
    co_await wait(tcp::socket::wait_read);
  }
  co_return Status{};
}

asio::awaitable<Status> TcpConnection::write(std::span<const asio::const_buffer> buffers) {
  KINTSUGI_ASSERT(buffers.size() <= kMaxGather);
  size_t skip_bytes = 0;  // already sent of buffers.front()
  for (;;) {
    while (!buffers.empty() && skip_bytes >= buffers.front().size()) {
      skip_bytes -= buffers.front().size();
      buffers = buffers.subspan(1);
    }
    if (buffers.empty()) co_return Status{};
    ssize_t sent = send(buffers, skip_bytes);
    if (sent >= 0) {
      skip_bytes += static_cast<size_t>(sent);
      if (must_yield(static_cast<size_t>(sent))) co_await yield();
    } else if (sent == -EAGAIN) {
      co_await wait(tcp::socket::wait_write);
    } else {
      co_return failure("write", static_cast<int>(-sent));
    }
  }
}

void TcpConnection::expect_rate(double bytes_per_second) {
  if (!socket_.is_open()) return;
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
  const double seconds = kReadWithinSeconds + 2e-6 * info.tcpi_rtt;
  const double wanted = std::max<double>(bytes_per_second * seconds,
                                         std::max(kMinReceiveBytes, kMinReceiveSegments * info.tcpi_advmss));
  // The kernel would grant less without a word, and leaves more than that to itself.
  if (wanted > static_cast<double>(max_receive_bytes())) return;
  const int value = static_cast<int>(wanted);
  (void)setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVBUF, &value, sizeof value);
}

void TcpConnection::close() {
  if (!socket_.is_open()) return;
  losses_->closed(socket_.native_handle());
  boost::system::error_code ignored;
  socket_.close(ignored);
}

ssize_t TcpConnection::receive(std::span<std::byte> into) {
  if (!socket_.is_open()) return -ECANCELED;
  for (;;) {
    ssize_t received = ::recv(socket_.native_handle(), into.data(), into.size(), MSG_DONTWAIT);
    if (received >= 0) return received;
    if (errno != EINTR) return -errno;
  }
}

ssize_t TcpConnection::send(std::span<const asio::const_buffer> buffers, size_t skip_bytes) {
  if (!socket_.is_open()) return -ECANCELED;
  std::array<iovec, kMaxGather> vectors;
  for (size_t i = 0; i < buffers.size(); ++i) {
    asio::const_buffer part = i == 0 ? buffers[i] + skip_bytes : buffers[i];
    vectors[i] = {const_cast<void*>(part.data()), part.size()};
  }
  msghdr message{};
  message.msg_iov = vectors.data();
  message.msg_iovlen = buffers.size();
  for (;;) {
    ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return sent;
    if (errno != EINTR) return -errno;
  }
}

asio::awaitable<void> TcpConnection::wait(tcp::socket::wait_type type) {
  bytes_since_yield_ = 0;
  boost::system::error_code ignored;  // the system call that follows says what happened
  co_await socket_.async_wait(type, asio::redirect_error(asio::use_awaitable, ignored));
}

void TcpConnection::set_low_water(size_t bytes) {
  if (bytes == low_water_bytes_) return;
  int value = static_cast<int>(bytes);
  if (setsockopt(socket_.native_handle(), SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value) == 0) {
    low_water_bytes_ = bytes;
  }
}

bool TcpConnection::must_yield(size_t bytes) {
  bytes_since_yield_ += bytes + kOperationWeightBytes;
  return bytes_since_yield_ >= kBytesBetweenYields;
}

asio::awaitable<void> TcpConnection::yield() {
  bytes_since_yield_ = 0;
  co_await asio::post(socket_.get_executor(), asio::use_awaitable);
}

Status TcpConnection::failure(std::string_view operation, int error) const {
  if (error == ECANCELED) {
    return {Code::kCancelled, fmt::format("{}: connection closed", operation)};
  }
  // Whatever the kernel calls it, the stream is gone and another one may work.
  return {Code::kUnavailable, status_from_errno(error, operation).message()};
}

}  // namespace kintsugi::runtime

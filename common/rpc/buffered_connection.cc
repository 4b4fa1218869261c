#include "common/rpc/buffered_connection.h"

#include <algorithm>
#include <cstring>

namespace kintsugi::rpc {
namespace {

/// Of this size on the memory for a frame is counted. A block of a chunk with what is said of it is no large frame.
constexpr size_t kLargeFrameBytes = 2 * BufferedConnection::kControlBufferBytes;
/// A large frame is in memory three times at most: in the buffer, as the bytes of a request, and parsed.
constexpr size_t kCopiesOfAFrame = 3;

}  // namespace

void ConnectionRegistry::close_all() {
  for_each([](BufferedConnection& connection) { connection.close(); });
}

void ConnectionRegistry::close_stalled(TimePoint since) {
  for_each([since](BufferedConnection& connection) {
    if (std::min(connection.writing_since(), connection.large_since()) < since) connection.close();
  });
}

BufferedConnection::BufferedConnection(std::unique_ptr<runtime::Connection> connection,
                                       const asio::any_io_executor& executor,
                                       const std::shared_ptr<ConnectionRegistry>& registry)
    : connection_(std::move(connection)),
      peer_(connection_->peer()),
      registry_(registry),
      serial_(registry->next_serial_++),
      watched_(executor),
      held_(executor) {
  registry_->connections_.emplace(serial_, this);
}

BufferedConnection::~BufferedConnection() {
  registry_->connections_.erase(serial_);
}

Result<std::optional<FrameView>> BufferedConnection::peek_frame(size_t& needed) const {
  std::span<const std::byte> bytes = buffered();
  needed = kFrameHeaderBytes;
  if (bytes.size() < needed) return std::nullopt;
  Result<FrameHeader> header = decode_frame_header(bytes.first<kFrameHeaderBytes>());
  if (!header) return header.error();
  needed += header->header_bytes;
  if (bytes.size() < needed) return std::nullopt;
  FrameView frame{*header, bytes.subspan(kFrameHeaderBytes, header->header_bytes)};
  KINTSUGI_TRY(check_message(*header, frame.message));
  return frame;
}

void BufferedConnection::make_room(size_t needed) {
  if (begin_ == end_) begin_ = end_ = 0;
  size_t capacity = std::max(buffer_bytes_, needed);
  // One large frame must not pin its buffer for the life of the connection.
  bool oversized = begin_ == end_ && buffer_.size() > buffer_bytes_;
  if (buffer_.size() < capacity || oversized) {
    std::vector<std::byte> larger(capacity);
    if (begin_ != end_) std::memcpy(larger.data(), buffer_.data() + begin_, end_ - begin_);
    buffer_ = std::move(larger);
  } else if (begin_ == 0 || begin_ + capacity <= buffer_.size()) {
    return;
  } else {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  }
  end_ -= begin_;
  begin_ = 0;
}

asio::awaitable<Result<Peer::Held>> BufferedConnection::hold(Need need) {
  Peer::Waiter waiter(*peer_share_, need, held_);
  while (!waiter.granted() && is_open())
    co_await held_.wait();
  if (!is_open()) co_return Status{Code::kCancelled, "connection closed"};
  co_return waiter.take();
}

void BufferedConnection::end_large_frame() {
  large_since_ = TimePoint::max();
  large_ = {};
  if (begin_ != end_) return;
  buffer_ = {};
  begin_ = end_ = 0;
}

asio::awaitable<Result<size_t>> BufferedConnection::fill(size_t needed) {
  if (watching_) {
    while (watching_)
      co_await watched_.wait();
    if (begin_ != end_) co_return end_ - begin_;
  }
  if (read_outcome_) co_return *read_outcome_;
  if (needed > kLargeFrameBytes && peer_share_ && large_since_ == TimePoint::max()) {
    // All that it will take at once, its answer too: those who held a part and waited for the rest would wait for one
    // another.
    KINTSUGI_CO_ASSIGN(large_,
                       co_await hold({.requests = 1, .bytes = kCopiesOfAFrame * needed + kMaxHeaderBytes}));
    large_since_ = clock_->now();
  }
  make_room(needed);
  KINTSUGI_ASSERT(end_ < buffer_.size());
  Result<size_t> read = co_await connection_->read_some(std::span(buffer_).subspan(end_));
  if (read) end_ += *read;
  co_return read;
}

asio::awaitable<Result<FrameView>> BufferedConnection::next_frame() {
  while (true) {
    size_t needed = 0;
    Result<std::optional<FrameView>> frame = peek_frame(needed);
    if (!frame) co_return frame.error();
    if (*frame) co_return **frame;
    Result<size_t> read = co_await fill(needed);
    if (!read) co_return read.error();
    if (*read == 0) co_return Status{Code::kUnavailable, "connection closed by peer"};
  }
}

asio::awaitable<Status> BufferedConnection::read_exact(std::span<std::byte> into) {
  while (watching_)
    co_await watched_.wait();
  size_t copied = std::min(into.size(), end_ - begin_);
  if (copied > 0) std::memcpy(into.data(), buffer_.data() + begin_, copied);
  begin_ += copied;
  if (copied == into.size()) co_return Status{};
  co_return co_await connection_->read_exact(into.subspan(copied));
}

asio::awaitable<void> BufferedConnection::watch(std::shared_ptr<BufferedConnection> self) {
  KINTSUGI_ASSERT(!self->watching_ && !self->read_outcome_);
  self->watching_ = true;
  return read_ahead(std::move(self));
}

asio::awaitable<void> BufferedConnection::read_ahead(std::shared_ptr<BufferedConnection> self) {
  self->make_room(kFrameHeaderBytes);
  Result<size_t> read = co_await self->connection_->read_some(std::span(self->buffer_).subspan(self->end_));
  if (read && *read > 0) {
    self->end_ += *read;
  } else {
    self->read_outcome_ = std::move(read);
  }
  self->watching_ = false;
  self->watched_.notify();
}

}  // namespace kintsugi::rpc

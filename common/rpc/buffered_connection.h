/// A runtime::Connection with a read buffer in front, and the set of all connections that a client or server has open.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/rpc/frame.h"
#include "common/rpc/frame_marks.h"
#include "common/rpc/peers.h"
#include "common/rpc/wakeup.h"
#include "common/runtime/clock.h"
#include "common/runtime/network.h"

namespace kintsugi::rpc {

class BufferedConnection;

/// Knows every open connection so that stop() can close them all. Must outlive them.
class ConnectionRegistry {
 public:
  void close_all();
  /// Closes connections of which a write or a large frame that comes in began before `since` and has not ended.
  void close_stalled(TimePoint since);
  size_t size() const { return connections_.size(); }

  /// The open connections, in the order in which they were opened.
  template <class Function>
  void for_each(Function function) {
    for (auto& [serial, connection] : connections_)
      function(*connection);
  }

 private:
  friend class BufferedConnection;
  uint64_t next_serial_ = 1;
  std::map<uint64_t, BufferedConnection*> connections_;
};

/// A whole frame without its payload, as a view of the read buffer: valid until the next consume or fill.
struct FrameView {
  FrameHeader header;
  std::span<const std::byte> message;
  size_t bytes() const { return kFrameHeaderBytes + message.size(); }
};

/// One coroutine reads and one writes at a time. Whoever may have an operation pending shares it; the last
/// one closes it.
class BufferedConnection {
 public:
  /// A small buffer: payload bytes in it are copied once more.
  static constexpr size_t kStreamBufferBytes = 4 << 10;
  /// A buffer for many small frames in one system call.
  static constexpr size_t kControlBufferBytes = 64 << 10;

  BufferedConnection(std::unique_ptr<runtime::Connection> connection, const asio::any_io_executor& executor,
                     const std::shared_ptr<ConnectionRegistry>& registry);
  ~BufferedConnection();
  BufferedConnection(const BufferedConnection&) = delete;
  BufferedConnection& operator=(const BufferedConnection&) = delete;

  std::span<const std::byte> buffered() const { return {buffer_.data() + begin_, end_ - begin_}; }
  void consume(size_t bytes) {
    begin_ += bytes;
    if (large_since_ != TimePoint::max()) end_large_frame();
  }
  void set_buffer_bytes(size_t bytes) { buffer_bytes_ = bytes; }

  /// The frame at the front of the buffer; none when it is not complete: the buffer must then hold at least
  /// `needed` bytes. An error means that the bytes are no frame.
  Result<std::optional<FrameView>> peek_frame(size_t& needed) const;

  /// Reads once into the buffer, which gets room for `needed` bytes. 0 only at the end of the stream.
  asio::awaitable<Result<size_t>> fill(size_t needed);
  /// Fills the buffer until its front is a frame. kUnavailable at the end of the stream.
  asio::awaitable<Result<FrameView>> next_frame();
  /// Takes buffered bytes first and reads the rest straight from the connection.
  asio::awaitable<Status> read_exact(std::span<std::byte> into);
  asio::awaitable<Status> write(std::span<const asio::const_buffer> buffers) {
    return connection_->write(buffers);
  }

  /// On the server's side, once it is proven who the peer is. From now on large frames (128 KiB) wait until their
  /// peer may have so much memory.
  void belongs_to(std::shared_ptr<Peer> peer, const runtime::Clock& clock) {
    peer_share_ = std::move(peer);
    clock_ = &clock;
  }
  /// Null on the client's side, and before the proof.
  Peer* share() const { return peer_share_.get(); }
  /// Waits until the peer may have that. kCancelled: the connection was closed meanwhile. REQUIRES: belongs_to().
  asio::awaitable<Result<Peer::Held>> hold(Need need);
  /// Hands over the share of the peer that the large frame at the front of the buffer, and a request in it, have taken.
  /// Empty: the frame is not large. The caller takes it before consume(), and holds it as long as what it made of the frame.
  Peer::Held take_large_frame() { return std::move(large_); }
  /// Since when a large frame comes in; max when none does.
  TimePoint large_since() const { return large_since_; }

  /// Since when a write is under way; max when none is. For close_stalled.
  void set_writing_since(TimePoint since) { writing_since_ = since; }
  TimePoint writing_since() const { return writing_since_; }

  /// Notices when the peer closes a connection that nobody reads: reads ahead once; a later fill takes its outcome. The
  /// connection counts as watched from this call on, not from when the task that it returns first runs.
  static asio::awaitable<void> watch(std::shared_ptr<BufferedConnection> self);
  /// True for an open connection on which nothing came, not even its end.
  bool is_quiet() const { return is_open() && !read_outcome_ && begin_ == end_; }
  bool is_watched() const { return watching_; }

  /// The version of this end's keys (SharedKeys::version) with which the connection was proven.
  void set_proven_by(uint64_t version) { proven_by_ = version; }
  uint64_t proven_by() const { return proven_by_; }

  FrameMarks& marks() { return marks_; }
  const FrameMarks& marks() const { return marks_; }

  void close() {
    connection_->close();
    held_.notify();
  }
  bool is_open() const { return connection_->is_open(); }
  const std::string& peer() const { return peer_; }
  /// Tells it from all other connections of its registry; never 0. Once it is proven the number of its peer is in it
  /// (peer_of in peers.h).
  uint64_t serial() const { return serial_ | (peer_share_ ? peer_share_->number() << kPeerNumberShift : 0); }

 private:
  void make_room(size_t needed);
  void end_large_frame();
  static asio::awaitable<void> read_ahead(std::shared_ptr<BufferedConnection> self);

  std::unique_ptr<runtime::Connection> connection_;
  std::string peer_;
  std::shared_ptr<ConnectionRegistry> registry_;
  uint64_t serial_;
  FrameMarks marks_;
  uint64_t proven_by_ = 0;
  size_t buffer_bytes_ = kStreamBufferBytes;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;
  TimePoint writing_since_ = TimePoint::max();
  bool watching_ = false;
  std::optional<Result<size_t>> read_outcome_;  ///< the end of the stream or an error, as seen by watch
  Wakeup watched_;

  std::shared_ptr<Peer> peer_share_;
  const runtime::Clock* clock_ = nullptr;
  Wakeup held_;  ///< notified when the peer may have what a waiter asked for
  Peer::Held large_;
  TimePoint large_since_ = TimePoint::max();
};

}  // namespace kintsugi::rpc

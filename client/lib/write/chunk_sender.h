/// Sends one chunk of a stripe that is being written to its server, slice by slice.
///
/// A bounded queue stands between the writer and each server, so that one slow server holds up the others only once its
/// queue is full. A server that fails before it got the first byte is replaced by another; later the chunk counts as
/// missing, further slices are dropped, and the stripe's writer decides. A chunk of one block goes as a whole, in one
/// call that may be repeated: its server is replaced whenever it fails.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "client/lib/resources.h"
#include "client/lib/write/row_batch.h"
#include "client/lib/write/small_write.h"
#include "client/lib/write/stripe_allocation.h"
#include "common/base/crc32c.h"
#include "common/rpc/stream.h"
#include "common/runtime/context.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

class ChunkSender {
 public:
  /// The chunk of the stripe that is sent.
  struct Chunk {
    uint32_t index = 0;
    /// No more bytes are pushed. When there are none, no server is asked to keep the chunk.
    uint64_t max_bytes = 0;
    size_t queue_slices = 0;  ///< They bound the memory that waits for a slow server.
  };

  /// `changed` is notified when the sender is done. All outlive the sender, which must live until `done()`.
  /// `writer` is the context of the one who fills the queue.
  ChunkSender(Resources& resources, Context context, const Context& writer, StripeAllocation& allocation,
              const Chunk& chunk, runtime::Event& changed);

  /// The sender's work, to be spawned once.
  asio::awaitable<void> run();

  /// Waits for room. A slice for a chunk that failed already is dropped.
  asio::awaitable<void> push(const Context& writer, Slice slice);
  /// Nothing more follows; the server makes the chunk durable.
  void end(uint64_t length, uint32_t crc);
  /// Breaks off. `done()` follows soon.
  void abort();
  /// The chunk fails, because its server keeps this sender waiting. REQUIRES: waiting_since().
  void give_up();

  /// The time since which the server has kept the sender waiting: to take a slice, or to make the chunk durable.
  std::optional<TimePoint> waiting_since() const { return waiting_since_; }
  /// The longest of such waits that ended well.
  Duration longest_wait() const { return longest_wait_; }

  bool is_empty() const { return chunk_.max_bytes == 0; }
  bool done() const { return result_.has_value(); }
  bool failed() const { return failed_; }
  /// Ok: the chunk is durable. REQUIRES: done().
  const Status& result() const { return *result_; }

 private:
  asio::awaitable<Status> send_all();
  using TryAt = asio::awaitable<Status> (ChunkSender::*)(proto::ChunkPlacement placement);
  /// Tries the chunk's server, and others when that fails, as often as is allowed.
  asio::awaitable<Status> try_servers(TryAt try_at);
  asio::awaitable<Status> open_at(proto::ChunkPlacement placement);
  asio::awaitable<Status> send_whole();
  asio::awaitable<Status> send_whole_to(proto::ChunkPlacement placement);
  asio::awaitable<Status> confirm_small_write();
  bool is_small() const { return chunk_.max_bytes <= kBlockBytes; }
  void leave_server();
  asio::awaitable<Status> send_slices();
  asio::awaitable<Status> seal();
  asio::awaitable<Status> seal_and_confirm();
  void end_wait();

  Resources& resources_;
  Context context_;
  uint64_t writer_span_;  ///< the region that fills the queue
  StripeAllocation& allocation_;
  const Chunk chunk_;
  runtime::Channel<std::unique_ptr<Slice>> queue_;
  runtime::Event& changed_;
  runtime::Endpoint server_;
  std::unique_ptr<rpc::Stream> stream_;
  std::unique_ptr<Slice> whole_;             ///< contents of a small chunk
  std::shared_ptr<SmallWrite> small_write_;  ///< set while the small write is in progress
  uint64_t length_ = 0;                      ///< length of the whole chunk, known at its end
  uint32_t crc_ = 0;
  bool failed_ = false;
  bool aborted_ = false;
  bool given_up_ = false;
  std::optional<TimePoint> waiting_since_;
  Duration longest_wait_{};
  std::optional<Status> result_;
};

}  // namespace kintsugi::client

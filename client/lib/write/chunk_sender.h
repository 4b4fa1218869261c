/// Sends one chunk of a stripe that is being written to its server, slice by slice.
///
/// A bounded queue stands between the writer and each server, so that one slow server holds up the others
/// only once its queue is full. A server that fails before it got the first byte is replaced by another;
/// later the chunk counts as missing, what is still pushed is dropped, and the stripe's writer decides.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "client/lib/core.h"
#include "client/lib/write/row_batch.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/stream.h"
#include "common/runtime/context.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

/// What the senders of one stripe share: placements change, and with them the ticket.
struct StripeAllocation {
  StripeAllocation(const runtime::Runtime& runtime, proto::AllocateStripeResponse response);

  uint64_t upload_id;
  proto::Stripe stripe;
  std::string ticket;
  std::vector<uint64_t> failed_servers;
  runtime::Semaphore replacing;  ///< one replacement at a time: each needs the ticket of the one before
};

class ChunkSender {
 public:
  /// `max_bytes`: no more will be pushed; when that is nothing, no server is asked to keep the chunk.
  /// `queue_slices` bounds the memory of a slow server. All outlive the sender, which must live until
  /// `done()`.
  ChunkSender(Core& core, Context context, StripeAllocation& allocation, uint32_t index, uint64_t max_bytes,
              size_t queue_slices, runtime::Event& changed);

  /// The sender's work; spawn it once.
  asio::awaitable<void> run();

  /// Waits for room. A slice for a chunk that failed already is dropped.
  asio::awaitable<void> push(Slice slice);
  /// Nothing more follows; the server makes the chunk durable.
  void end(uint64_t length, uint32_t crc);
  /// Breaks off. `done()` follows soon.
  void abort();
  /// The chunk fails, because its server keeps this sender waiting. Requires `waiting_since`.
  void give_up();

  /// Since when the server has been keeping it waiting: to take a slice, or to make the chunk durable.
  std::optional<TimePoint> waiting_since() const { return waiting_since_; }
  /// The longest of such waits that ended well.
  Duration longest_wait() const { return longest_wait_; }

  bool is_empty() const { return max_bytes_ == 0; }
  bool done() const { return result_.has_value(); }
  bool failed() const { return failed_; }
  /// Once done: ok means the chunk is durable.
  const Status& result() const { return *result_; }

 private:
  asio::awaitable<Status> send_all();
  asio::awaitable<Status> open();
  asio::awaitable<Status> open_at(proto::ChunkPlacement placement);
  /// By a server that did not fail for this stripe and is none of `avoided`.
  asio::awaitable<Status> replace(Context context, std::vector<ServerId> avoided, Repeat repeat);
  asio::awaitable<Status> send_slices();
  asio::awaitable<Status> seal();
  asio::awaitable<Status> seal_and_confirm();
  void end_wait();
  const proto::ChunkPlacement& placement() const;

  Core& core_;
  Context context_;
  StripeAllocation& allocation_;
  const uint32_t index_;
  const uint64_t max_bytes_;
  runtime::Channel<std::unique_ptr<Slice>> queue_;
  runtime::Event& changed_;
  runtime::Endpoint server_;
  std::unique_ptr<rpc::Stream> stream_;
  uint64_t length_ = 0;
  uint32_t crc_ = 0;
  bool failed_ = false;
  bool aborted_ = false;
  bool given_up_ = false;
  std::optional<TimePoint> waiting_since_;
  Duration longest_wait_{};
  std::optional<Status> result_;
};

}  // namespace kintsugi::client

/// Fetches one range of one chunk, block by block verified, straight into pool buffers.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/lib/chunk_range.h"
#include "client/lib/resources.h"
#include "common/base/crc32c.h"
#include "common/proto/chunk.pb.h"
#include "common/rpc/stream.h"
#include "common/runtime/context.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

/// Shared between its waiter and its own coroutine, so that nobody has to wait for a server that does not answer: a
/// cancelled fetch touches neither the waiter nor memory any more.
class ChunkFetch {
 public:
  /// `range` begins at a multiple of kBlockBytes, and ends at one or with the chunk. The caller's lease must cover the
  /// range's buffers, which are taken once bytes arrive, until they are back (see `take_buffers`). `changed` is
  /// notified when the fetch is done.
  ChunkFetch(Resources& resources, Context context, ChunkRange range, runtime::Event& changed);

  /// The fetch's work, to be spawned once on resources.background.
  static asio::awaitable<void> run(std::shared_ptr<ChunkFetch> self);

  /// No buffer and no event of the caller is touched any more once `is_receiving` is false; if it is true, `changed`
  /// will tell when.
  void cancel();
  bool is_receiving() const { return receiving_; }

  bool done() const { return status_.has_value(); }
  bool ok() const { return done() && status_->ok(); }
  const Status& status() const { return *status_; }
  TimePoint started() const { return started_; }

  /// The bytes that were fetched, in portions of 1 MiB, the last one shorter.
  std::span<const std::byte> part(size_t index) const;
  /// To be called, and the result dropped, before the lease is given back.
  std::vector<runtime::Buffer> take_buffers() { return std::move(buffers_); }

  /// A chunk of one block comes as a whole, and takes no buffer.
  static bool is_small(const ChunkRange& range) { return range.is_whole() && range.end <= kBlockBytes; }

 private:
  /// Waits for its turn with the server first.
  asio::awaitable<Status> run_task();
  asio::awaitable<Status> fetch_in_turn();
  asio::awaitable<Status> fetch();
  asio::awaitable<Status> fetch_whole(Context context);
  asio::awaitable<Status> receive_all();
  asio::awaitable<Status> receive_frame(uint32_t payload_bytes, std::span<const uint32_t> crcs);
  void report(const Status& failure);

  Resources& resources_;
  Context context_;
  const ChunkRange range_;
  runtime::Event* changed_;  ///< null once it may no longer be touched
  TimePoint started_;
  runtime::Endpoint server_;
  std::unique_ptr<rpc::Stream> stream_;
  std::vector<runtime::Buffer> buffers_;
  proto::ReadSmallChunkResponse whole_;  ///< the answer, if the chunk is small
  std::vector<uint32_t> block_crcs_;     ///< the CRCs of the received blocks
  uint64_t received_ = 0;                ///< bytes that have come
  bool receiving_ = false;
  bool cancelled_ = false;
  std::optional<Status> status_;
};

}  // namespace kintsugi::client

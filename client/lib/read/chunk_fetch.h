/// Fetches one range of one chunk, block by block verified, straight into pool buffers.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "client/lib/core.h"
#include "common/proto/types.pb.h"
#include "common/rpc/stream.h"
#include "common/runtime/context.h"
#include "common/runtime/event.h"

namespace kintsugi::client {

/// Shared between who waits for it and its own coroutine, so that nobody has to wait for a server that does
/// not answer: a cancelled fetch touches neither the waiter nor memory any more.
class ChunkFetch {
 public:
  /// [begin, end) in bytes of the chunk; begin a multiple of kBlockBytes, end too unless the chunk ends
  /// there. The caller's lease must cover the range's buffers, which are taken once bytes arrive, until they
  /// are back (see `take_buffers`). `changed` is notified when the fetch is done.
  ChunkFetch(Core& core, Context context, uint64_t stripe_id, proto::ChunkPlacement placement, uint64_t begin,
             uint64_t end, runtime::Event& changed);

  /// Its work; spawn on core.background.
  static asio::awaitable<void> run(std::shared_ptr<ChunkFetch> self);

  /// No buffer and no event of the caller is touched any more once `is_receiving` is false; if it is true,
  /// `changed` will tell when.
  void cancel();
  bool is_receiving() const { return receiving_; }

  bool done() const { return status_.has_value(); }
  bool ok() const { return done() && status_->ok(); }
  const Status& status() const { return *status_; }
  TimePoint started() const { return started_; }

  /// What was fetched: 1 MiB portions, the last one shorter.
  std::span<const std::byte> part(size_t index) const;
  /// To be called, and the result dropped, before the lease is given back.
  std::vector<runtime::Buffer> take_buffers() { return std::move(buffers_); }

 private:
  asio::awaitable<Status> fetch();
  asio::awaitable<Status> receive_all();
  asio::awaitable<Status> receive_frame(uint32_t payload_bytes, std::span<const uint32_t> crcs);
  void report(const Status& status);

  Core& core_;
  Context context_;
  const uint64_t stripe_id_;
  const proto::ChunkPlacement placement_;
  const uint64_t begin_, end_;
  runtime::Event* changed_;
  TimePoint started_;
  runtime::Endpoint server_;
  std::unique_ptr<rpc::Stream> stream_;
  std::vector<runtime::Buffer> buffers_;
  std::vector<uint32_t> block_crcs_;
  uint64_t received_ = 0;
  bool receiving_ = false;
  bool cancelled_ = false;
  std::optional<Status> status_;
};

}  // namespace kintsugi::client

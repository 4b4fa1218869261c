/// A lost chunk on its way back into the store.
#pragma once

#include <memory>

#include "chunkserver/store/chunk_store.h"
#include "common/proto/repair.pb.h"
#include "common/runtime/buffer_pool.h"
#include "partial_sum/sum_range.h"

namespace kintsugi::chunkserver {

/// Takes the sums of a node, writes those that are its rows, and commits when the CRC is right. The same chunk may be
/// here already, whole or not: the one that was proven replaces it. Destroying it without a commit discards everything.
class RebuiltChunk {
 public:
  /// Where chunks are written to, and the buffers that they are collected in. All of it outlives the chunk.
  struct Destination {
    const runtime::Clock& clock;
    ChunkStore& store;
    runtime::BufferPool& buffers;
  };
  /// kAlreadyExists: another chunk of this name is here; kNoSpace, kLimitExceeded.
  static asio::awaitable<Result<std::unique_ptr<RebuiltChunk>>> create(Context context, Destination to,
                                                                       StripeId stripe,
                                                                       const proto::RebuiltChunk& spec,
                                                                       const partial_sum::SumRange& range);

  /// Takes the next part of all sums of the node; whole sub-cells when the code has rows.
  asio::awaitable<Status> put(Context context, uint64_t offset, std::span<const std::span<std::byte>> sums);
  /// Proves the CRC and stores the chunk. REQUIRES: everything was put. kCorrupt: it is not what was lost. After an
  /// error nothing is left.
  asio::awaitable<Status> commit(Context context);
  /// Discards what is not committed; complete on return.
  asio::awaitable<void> abort();

  ChunkId id() const { return id_; }
  double write_seconds() const { return write_seconds_; }
  uint64_t bytes() const { return writer_->length(); }

 private:
  RebuiltChunk(Destination to, ChunkId id, const proto::RebuiltChunk& spec,
               const partial_sum::SumRange& range, std::unique_ptr<ChunkWriter> writer);

  asio::awaitable<Status> write(Context context, std::span<const std::byte> bytes);
  asio::awaitable<Status> flush(Context context);

  const Destination to_;
  const ChunkId id_;
  const uint64_t length_;
  const uint32_t crc_, first_sum_, rows_;
  const uint64_t cell_bytes_;
  std::unique_ptr<ChunkWriter> writer_;
  runtime::Buffer buffer_;  ///< whole blocks are collected here, for writes of a good size
  size_t filled_ = 0;
  double write_seconds_ = 0;
};

}  // namespace kintsugi::chunkserver

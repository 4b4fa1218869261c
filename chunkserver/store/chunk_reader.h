/// Reads a stored chunk, block by block, never bytes that fail their checksum.
#pragma once

#include <memory>
#include <span>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/open_chunk.h"
#include "common/runtime/buffer_pool.h"
#include "common/runtime/context.h"

namespace kintsugi::chunkserver {

class ChunkStore;

/// The store outlives it. Reads may overlap.
class ChunkReader {
 public:
  uint64_t length() const { return chunk_->info.length; }
  uint32_t crc() const { return chunk_->info.crc; }
  const std::string& policy() const { return chunk_->policy; }
  uint64_t blocks() const { return chunk_->block_crcs.size(); }

  struct Blocks {
    std::span<const std::byte> data;       ///< in the caller's buffer; the chunk's last block may be short
    std::span<const uint32_t> block_crcs;  ///< valid as long as the reader
  };
  /// Blocks [first_block, first_block + count), cut at the end of the chunk, into `buffer`, which must hold
  /// them. kCorrupt names the block, and the chunk is quarantined and reported lost. kInvalidArgument: beyond
  /// the end.
  asio::awaitable<Result<Blocks>> read_blocks(Context context, uint64_t first_block, uint64_t count,
                                              runtime::Buffer& buffer);

 private:
  friend class ChunkStore;
  ChunkReader(ChunkStore& store, std::shared_ptr<OpenChunk> chunk)
      : store_(&store), chunk_(std::move(chunk)) {}

  asio::awaitable<Status> read_and_check(uint64_t first_block, uint64_t bytes, runtime::Buffer& buffer);

  ChunkStore* store_;
  std::shared_ptr<OpenChunk> chunk_;
};

}  // namespace kintsugi::chunkserver

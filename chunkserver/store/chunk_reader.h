/// Reads a stored chunk, block by block, never bytes that fail their checksum.
#pragma once

#include <memory>
#include <span>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/open_chunk.h"
#include "chunkserver/store/disk/owned_span.h"
#include "common/runtime/buffer_pool.h"
#include "common/runtime/context.h"

namespace kintsugi::chunkserver {

class DiskCalls;
class StoredChunks;

enum class ReadFor {
  kUser,  ///< counts as a use of the chunk: it becomes hotter, and blocks that come from the disk are cached
  kBackground,    ///< takes blocks from the cache and leaves no trace there
  kVerification,  ///< opens the chunk anew and takes everything from the disk, and leaves no trace in memory
};

/// The store outlives it. Reads may overlap.
class ChunkReader {
 public:
  /// Made by ChunkStore::open.
  ChunkReader(StoredChunks& chunks, DiskCalls& calls, std::shared_ptr<OpenChunk> chunk, ReadFor purpose)
      : chunks_(chunks), calls_(calls), chunk_(std::move(chunk)), purpose_(purpose) {}

  /// Whoever reads into buffers that are lent takes them as this disk's (acquire_buffer).
  DataDisk& disk() const { return *chunk_->disk; }
  uint64_t length() const { return chunk_->info.length; }
  uint32_t crc() const { return chunk_->info.crc; }
  uint64_t blocks() const { return chunk_->block_crcs.size(); }
  /// Bytes of blocks that this reader had to read from the disk.
  uint64_t disk_bytes() const { return disk_bytes_; }

  struct Blocks {
    /// Points into the caller's buffer; the last block of a chunk may be short.
    std::span<const std::byte> data;
    std::span<const uint32_t> block_crcs;  ///< valid as long as the reader
  };
  /// The bytes [begin, begin + bytes) when one block has them all and is in the cache; they are valid until the caller
  /// suspends. Empty: they have to be read with read_blocks(). REQUIRES: the chunk has them, and there are some.
  std::span<const std::byte> cached_bytes(uint64_t begin, uint64_t bytes);
  /// Reads blocks [first_block, first_block + count), cut at the end of the chunk, into `buffer`. kCorrupt names the
  /// block, kMediumError: the disk cannot read it; the chunk is quarantined and reported lost after both. kUnavailable:
  /// its disk hangs, or began to while it was read: then `buffer` is the disk's, and must not be used any more.
  /// kInvalidArgument: beyond the end. REQUIRES: `buffer` holds them; its address and size are multiples of
  /// kDiskAlignment.
  asio::awaitable<Result<Blocks>> read_blocks(Context context, uint64_t first_block, uint64_t count,
                                              OwnedSpan buffer);
  asio::awaitable<Result<Blocks>> read_blocks(Context context, uint64_t first_block, uint64_t count,
                                              const std::shared_ptr<runtime::Buffer>& buffer) {
    return read_blocks(context, first_block, count, OwnedSpan{buffer->span(), buffer});
  }

 private:
  uint64_t bytes_of(uint64_t first_block, uint64_t end_block) const;
  std::span<const std::byte> cached_block(uint64_t block);
  bool copy_cached(uint64_t block, std::span<std::byte> into);
  void count_use(uint64_t bytes);
  asio::awaitable<Status> read_from_disk(Context context, uint64_t first_block, OwnedSpan into,
                                         uint64_t bytes);
  asio::awaitable<Status> read_and_check(Context context, uint64_t first_block, OwnedSpan into,
                                         uint64_t bytes);

  StoredChunks& chunks_;
  DiskCalls& calls_;
  std::shared_ptr<OpenChunk> chunk_;
  ReadFor purpose_;
  uint64_t disk_bytes_ = 0;
};

}  // namespace kintsugi::chunkserver

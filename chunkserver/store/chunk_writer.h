/// One chunk on its way into the store.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/aligned_memory.h"
#include "chunkserver/store/disk/chunk_file.h"
#include "chunkserver/store/open_writers.h"
#include "common/runtime/context.h"

namespace kintsugi::chunkserver {

class ChunkChanges;
struct StoreRoot;

/// Used from one coroutine. The chunk is kept in memory below kSmallChunkBytes and then appended to a segment;
/// otherwise it is a file, whose writes overlap with what the caller does next. Destroying the writer without a commit
/// discards everything. The store outlives it.
class ChunkWriter {
 public:
  /// Made by ChunkStore::create.
  ChunkWriter(ChunkChanges& changes, const runtime::Runtime& runtime, StoreRoot& root, OpenWriters::Room room,
              ChunkId id, std::string policy);
  ~ChunkWriter();
  ChunkWriter(const ChunkWriter&) = delete;

  /// Whoever fills buffers that are lent for append() takes them as this disk's (acquire_buffer).
  DataDisk& disk() const { return room_.disk(); }
  /// Appends the next `bytes` of the chunk, whose blocks must have the given CRCs. kCorrupt: a block does not match;
  /// kInvalidArgument: beyond max_bytes, or after a part that was not whole blocks; kNoSpace; kIoError;
  /// kUnavailable: the disk hangs, or began to meanwhile. After an error the writer takes nothing more.
  asio::awaitable<Status> append(Context context, runtime::Buffer buffer, size_t bytes,
                                 std::vector<uint32_t> block_crcs);
  /// Appends bytes that were made here: their CRCs are computed.
  asio::awaitable<Status> append(Context context, runtime::Buffer buffer, size_t bytes);

  /// Checks length and CRC of the whole chunk, and makes it durable and visible. A chunk of its name may be there
  /// already: an equal one is replaced, another one is kAlreadyExists. kConflict: the chunk was removed from the store
  /// after this writer was made. kUnavailable: the disk began to hang. After any error nothing is left, or will be
  /// when the disk answers.
  asio::awaitable<Result<ChunkInfo>> commit(Context context, uint64_t length, uint32_t crc);

  /// Discards what is not committed; complete on return, unless the disk hangs.
  asio::awaitable<void> abort();

  ChunkId id() const { return id_; }
  uint64_t length() const { return length_; }  ///< bytes appended so far

 private:
  Status accept(std::span<const std::byte> data) const;
  asio::awaitable<Status> append_checked(Context context, runtime::Buffer buffer, size_t bytes,
                                         std::vector<uint32_t> block_crcs);
  bool fits_in_memory(size_t bytes) const;
  void keep(std::span<const std::byte> data);
  asio::awaitable<Status> store_part(Context context, runtime::Buffer buffer, size_t bytes);

  ChunkChanges& changes_;
  const runtime::Runtime& runtime_;
  StoreRoot& root_;
  OpenWriters::Room room_;  ///< released when the chunk is committed or discarded
  const ChunkId id_;
  const std::string policy_;
  const TimePoint began_;
  uint64_t length_ = 0;
  std::vector<uint32_t> crcs_;
  Status failed_;        ///< error of an append, after which the writer accepts nothing
  AlignedMemory small_;  ///< contents of the chunk, while it is small
  /// Null while the chunk is small; shared with a call that a slow disk holds up.
  std::shared_ptr<ChunkFileWriter> file_;
};

}  // namespace kintsugi::chunkserver

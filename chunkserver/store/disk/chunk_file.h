/// Chunks with a file each: written under tmp/, then renamed into place, so that a chunk exists whole or not at all.
#pragma once

#include <memory>
#include <span>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/abandoned.h"
#include "chunkserver/store/disk/chunk_format.h"
#include "chunkserver/store/disk/data_disk.h"
#include "chunkserver/store/disk/open_chunk.h"
#include "common/runtime/buffer_pool.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// Writes one chunk file front to back. Used from one coroutine, but for discard(). REQUIRES: discard(), or a commit()
/// that succeeded, returned before it is destroyed.
class ChunkFileWriter {
 public:
  static constexpr size_t kMaxWritesInFlight = 4;
  static constexpr uint64_t kAllocationStepBytes = 16ull << 20;

  /// Nothing is made on disk before the first write. REQUIRES: no more than `max_bytes` of data come.
  ChunkFileWriter(const runtime::Runtime& runtime, DataDisk& disk, ChunkId id, uint64_t max_bytes);
  ~ChunkFileWriter();

  /// Returns when the write is under way (at most kMaxWritesInFlight are); an error shows at the next call. REQUIRES:
  /// `bytes` is a multiple of kDiskAlignment, except for the last write, whose padding in `buffer` gets cleared.
  asio::awaitable<Status> write(runtime::Buffer buffer, size_t bytes);
  /// Writes memory that lives until it returns.
  asio::awaitable<Status> write_memory(std::span<const std::byte> padded, size_t bytes);

  /// The chunk is durable and visible on return. With `replaces` an equal chunk is there already: that one or this one
  /// stays, whatever happens. kCancelled: nobody waits for it any more. After an error discard() leaves nothing.
  asio::awaitable<Status> commit(ChunkHeader header, std::span<const uint32_t> block_crcs, bool replaces,
                                 const Abandoned& abandoned);
  /// Waits for calls and writes under way and removes the file; nothing after a commit.
  asio::awaitable<void> discard();

 private:
  asio::awaitable<Status> open();
  asio::awaitable<Status> reserve(uint64_t end);
  asio::awaitable<void> write_one(uint64_t offset, runtime::Buffer buffer, size_t padded);
  asio::awaitable<void> drain();
  asio::awaitable<Status> begin_write(runtime::Buffer buffer, size_t bytes);
  asio::awaitable<Status> write_now(std::span<const std::byte> padded, size_t bytes);
  asio::awaitable<Status> finish(ChunkHeader header, std::span<const uint32_t> block_crcs, bool replaces,
                                 const Abandoned& abandoned);
  /// Carries out a call of which discard() knows.
  asio::awaitable<Status> known(asio::awaitable<Status> call);

  /// Pause between two checks whether the disk hangs.
  static constexpr Duration kLookAgain = std::chrono::seconds(1);

  DataDisk& disk_;
  const runtime::Clock& clock_;
  ChunkId id_;
  uint64_t max_bytes_;
  std::string temporary_path_;
  std::unique_ptr<runtime::File> file_;
  bool made_ = false;  ///< the temporary file may exist
  uint64_t written_ = 0, allocated_ = 0;
  size_t in_flight_ = 0;
  /// Calls of write() and so on that have not returned; their caller may have given up.
  size_t calls_ = 0;
  Status error_;
  runtime::Event finished_one_;
  runtime::TaskGroup writes_;
};

/// Opens a chunk for reading. kNotFound, kCorrupt (header or table, or another chunk than its name says), kIoError.
asio::awaitable<Result<std::shared_ptr<OpenChunk>>> open_chunk_file(DataDisk& disk, ChunkInfo info);

/// Removes the file, durably on return; who has it open may read on.
asio::awaitable<Status> remove_chunk_file(DataDisk& disk, ChunkInfo info);

/// Reads the header of a file that an older version named, checks the file's size, and gives it the name that it would
/// have today. Where that cannot be done the disk remembers the old name. Errors as above.
asio::awaitable<Result<ChunkInfo>> take_over_chunk_file(DataDisk& disk, ChunkId id);

}  // namespace kintsugi::chunkserver

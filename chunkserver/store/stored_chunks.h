/// The chunks that a store has, with what is kept of each in memory, and those that it has lost.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/chunk_cache.h"
#include "chunkserver/store/chunk_index.h"
#include "chunkserver/store/open_chunk_cache.h"
#include "chunkserver/store/store_root.h"
#include "chunkserver/store/surplus_copies.h"
#include "chunkserver/store/usage_profile.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// Whatever leaves the index leaves memory with it: no open file and no cached block of a copy outlives its entry.
/// Chunks whose bytes are damaged or gone, and all of a disk that fails, are taken out here and reported lost.
/// References outlive it.
class StoredChunks {
 public:
  /// Chunk files that are kept open for reading; each takes a descriptor.
  static constexpr size_t kOpenFiles = 256;
  /// Open small chunks of more than one block; those of a segment share a descriptor.
  static constexpr size_t kOpenRecords = 16'384;
  using Entry = ChunkIndex::Entry;

  /// `cache_bytes`: as for ChunkCache. What clears away after a damaged chunk runs in `tasks`.
  StoredChunks(const runtime::Runtime& runtime, uint64_t cache_bytes, runtime::TaskGroup& tasks);

  /// From here on, what happens on the disk is known here: its failure, damaged records, deleted segments.
  void follow(StoreRoot& root);

  /// The index, for claims and for adding chunks. A chunk that is there leaves it by the functions below only.
  ChunkIndex& index() { return index_; }
  const ChunkIndex& index() const { return index_; }
  SurplusCopies& surplus() { return surplus_; }
  const SurplusCopies& surplus() const { return surplus_; }
  ChunkCache& cache() { return cache_; }
  UsageProfile& usage() { return usage_; }

  /// The chunk, if a reader has left it open; null otherwise.
  std::shared_ptr<OpenChunk> find_open(const Entry& entry) { return open_chunks(entry).find(entry.info.id); }
  void keep_open(const Entry& entry, std::shared_ptr<OpenChunk> chunk) {
    open_chunks(entry).insert(std::move(chunk));
  }
  /// Puts a block that a user read into the cache, unless the copy that was read is no longer the one that is here.
  void admit(const OpenChunk& chunk, uint64_t block, std::span<const std::byte> bytes);

  /// Takes the chunk out of the index, and what is kept of it out of memory.
  std::optional<Entry> erase(ChunkId id);
  /// The chunk is never served again: it leaves the index, a file goes to quarantine, a record is removed, and it is
  /// reported lost. Nothing happens when another copy has taken the place of that `generation`.
  void drop_corrupt(ChunkId id, uint64_t generation, const Status& why);
  /// Drops it like drop_corrupt(), with nothing in the log. Returns false when nothing happened.
  bool drop_lost(ChunkId id, uint64_t generation, Code why);
  /// Reports chunks lost that a start found unusable.
  void add_unusable(const std::vector<ChunkId>& chunks);

  /// Takes the chunks that were found corrupt or missing, or were on a disk that failed, since the last call.
  std::vector<ChunkInfo> take_lost() { return std::exchange(lost_, {}); }
  /// How many were found corrupt: at a start, by a read, or when the files were looked at (FileWalk).
  uint64_t corrupt() const { return corrupt_; }

  /// Forgets what is kept in memory beside the index.
  void clear_memory();

 private:
  OpenChunkCache& open_chunks(const Entry& entry) { return entry.in_segment ? open_records_ : open_files_; }
  void drop_corrupt_record(StoreRoot& root, ChunkId id);
  void drop_disk(StoreRoot& root);
  asio::awaitable<void> clear_away(Entry entry, ChunkIndex::Claim claim);

  runtime::TaskGroup& tasks_;
  ChunkIndex index_;
  OpenChunkCache open_files_{kOpenFiles}, open_records_{kOpenRecords};
  ChunkCache cache_;
  UsageProfile usage_;
  std::vector<ChunkInfo> lost_;  ///< lost chunks that nobody has fetched with take_lost() yet
  uint64_t corrupt_ = 0;
  SurplusCopies surplus_;
};

}  // namespace kintsugi::chunkserver

/// Keeps the bytes of chunks that are read again and again in memory (Mitra 2016, section 4.4.4, figure 4.6).
///
/// Which blocks stay is decided by 2Q (Johnson and Shasha 1994), because of what reads a storage cluster: most bytes
/// are read by something that reads everything once (a backup, a job over a directory), far more than fits, beside a
/// small set that is read all the time. LRU would trade the second for the first.
///  - A block that is read for the first time comes to the tail of `probation`, a FIFO. Scans live and die there.
///  - A block that is read again, later than kCorrelated after it came (sooner is one reader that takes it in small
///    pieces), moves to `proven`, an LRU. So does one that is read again soon after it left probation: the names of
///    such blocks are remembered, as many as there are blocks.
///  - Probation gives way while it has more than kProbationShare of the memory, proven otherwise. A scan of
///    any length thus takes nothing from proven, and a new hot set still has room to prove itself.
///
/// A block that nobody read for a while leaves by drop_unread(), room or not: what is read less often than every few
/// minutes is not worth memory (Gray and Graefe 1997, the five-minute rule), which others on the machine may need.
///
/// Bytes are put in after their checksum was verified, and not trusted from then on: whoever takes a block
/// out compares it with its stored CRC (ChunkReader does), because a degraded read of a part of a chunk is
/// proved by nothing else.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>

#include "chunkserver/store/disk/chunk_info.h"
#include "common/runtime/clock.h"

namespace kintsugi::chunkserver {

struct CacheCounters {
  uint64_t hits = 0, misses = 0;                        ///< blocks that users asked for
  uint64_t hit_bytes = 0;                               ///< bytes of the blocks that hit
  uint64_t background_hits = 0, background_misses = 0;  ///< blocks that repairs asked for
  uint64_t admitted = 0, evicted = 0;                   ///< blocks that entered and left the cache
};

/// Names one copy of a chunk: bytes of an older copy are never given for a newer one.
struct CachedCopy {
  ChunkId id;
  uint64_t generation = 0;
  uint64_t length = 0;  ///< length of the chunk in bytes
};

class ChunkCache {
 public:
  static constexpr double kProbationShare = 0.25;
  static constexpr Duration kCorrelated = std::chrono::seconds(1);
  /// A chunk counts as cached when no more than one byte in kMissingShare is missing.
  static constexpr uint64_t kMissingShare = 16;

  /// `capacity_bytes` bounds everything: the bytes, and what it takes to find them. 0: nothing is kept.
  ChunkCache(uint64_t capacity_bytes, const runtime::Clock& clock)
      : capacity_(capacity_bytes), clock_(clock) {}
  ChunkCache(const ChunkCache&) = delete;

  /// All bytes of a block, until the cache changes; empty when it is not here. It counts as a use only when a user asks.
  std::span<const std::byte> use(const CachedCopy& chunk, uint64_t block, bool user);
  /// Counts blocks that were asked for and have to come from the disk.
  void missed(uint64_t blocks, bool user) {
    (user ? counters_.misses : counters_.background_misses) += blocks;
  }
  /// Keeps a block that a user read from the disk. REQUIRES: its checksum was verified.
  void admit(const CachedCopy& chunk, uint64_t block, std::span<const std::byte> bytes);
  /// Erases all blocks of the chunk, of whichever copy.
  void erase(ChunkId id);
  void clear();
  /// Drops the blocks that no user read since `since`.
  void drop_unread(TimePoint since);

  bool cached(ChunkId id) const;
  /// Called when cached() of a chunk changed.
  std::function<void(ChunkId)> on_change = [](ChunkId) {};
  /// Calls `visit` for each cached() chunk, in no order.
  void for_each_cached(const std::function<void(ChunkId)>& visit) const;

  uint64_t capacity_bytes() const { return capacity_; }
  uint64_t memory_bytes() const;
  /// Bytes of the blocks alone, without the memory of the index.
  uint64_t cached_bytes() const { return bytes_; }
  size_t cached_chunks() const { return cached_chunks_; }
  const CacheCounters& counters() const { return counters_; }

 private:
  struct BlockKey {
    ChunkId chunk;
    uint64_t block = 0;
    bool operator==(const BlockKey&) const = default;
  };
  struct KeyHash {
    size_t operator()(const BlockKey& key) const noexcept {
      return std::hash<ChunkId>{}(key.chunk) + key.block * kGoldenRatio;
    }
  };
  struct Block {
    BlockKey key;
    std::unique_ptr<std::byte[]> bytes;
    uint32_t size = 0;
    bool proven = false;
    /// Time of the last read of a proven block, and of the first read of one on probation.
    TimePoint read;
  };
  using Blocks = std::list<Block>;  ///< front: the next block to be evicted
  struct Chunk {
    uint64_t generation = 0, length = 0;
    uint64_t bytes = 0;  ///< cached bytes of the chunk
    bool cached() const { return length > 0 && (length - bytes) * kMissingShare <= length; }
  };
  // Each overhead covers nodes of lists and tables, a bucket, and the heap's own headers; chunk_cache_test
  // measures them.
  static constexpr uint64_t kBlockOverhead = 224;
  static constexpr uint64_t kChunkOverhead = 96;
  static constexpr uint64_t kGhostOverhead = 128;

  bool make_room(uint64_t bytes);
  void evict_one();
  void drop(Blocks& from, Blocks::iterator block);
  void prove(Blocks::iterator block);
  void remember(const BlockKey& key);
  void forget_names();
  bool recall(const BlockKey& key);
  void change_bytes(ChunkId id, Chunk& chunk, int64_t by);

  const uint64_t capacity_;
  const runtime::Clock& clock_;
  Blocks probation_, proven_;
  uint64_t probation_bytes_ = 0, bytes_ = 0;
  /// Never iterated: its order is not deterministic.
  std::unordered_map<BlockKey, Blocks::iterator, KeyHash> blocks_;
  std::unordered_map<ChunkId, Chunk> chunks_;
  std::list<BlockKey> ghosts_;  ///< names of evicted blocks, oldest first
  /// Never iterated: its order is not deterministic.
  std::unordered_map<BlockKey, std::list<BlockKey>::iterator, KeyHash> ghost_of_;
  size_t cached_chunks_ = 0;
  CacheCounters counters_;
};

}  // namespace kintsugi::chunkserver

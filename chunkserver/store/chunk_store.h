/// All chunks of a chunkserver, on one or more disks.
///
/// Large chunks are files (chunk_file.h), small ones share segment files (segment_log.h); nobody outside can
/// tell. A chunk is visible from its commit on, which is durable. A disk that keeps failing is dropped alone.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/chunk_cache.h"
#include "chunkserver/store/chunk_reader.h"
#include "chunkserver/store/chunk_writer.h"
#include "chunkserver/store/data_disk.h"
#include "chunkserver/store/identity.h"
#include "chunkserver/store/limited_disk.h"
#include "chunkserver/store/open_chunk_cache.h"
#include "chunkserver/store/segments/segment_log.h"
#include "chunkserver/store/usage_profile.h"
#include "common/runtime/context.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

struct StoreOptions {
  std::vector<std::string> disks;  ///< absolute paths of directories
  SegmentLimits segments;
  size_t open_files = 256;             ///< kept open for reading: a descriptor each
  size_t open_records = 16'384;        ///< the same of small chunks, which share descriptors
  uint64_t cache_bytes = 0;            ///< of the cache of chunks; 0: none
  uint64_t disk_bytes_per_second = 0;  ///< that each disk may read and write; 0: as many as it can
};

struct StoreSpace {
  uint64_t total_bytes = 0, free_bytes = 0;
  uint64_t chunks = 0, stored_bytes = 0;
  uint32_t disks = 0, failed_disks = 0;
};

struct StoreCounters {
  uint64_t chunks_committed = 0, chunks_removed = 0;
  uint64_t corrupt_chunks = 0;  ///< found at start or by a read
};

/// Single-threaded, on the runtime's executor.
class ChunkStore {
 public:
  static constexpr size_t kMaxOpenWriters = 1024;
  static constexpr uint64_t kMaxSmallBytes = 64ull
                                             << 20;  ///< of small chunks that are being written, in memory
  static constexpr size_t kMaxDisks = 64;

  ChunkStore(const runtime::Runtime& runtime, StoreOptions options);
  ~ChunkStore();  ///< after stop()

  /// Reads what is there. A disk that cannot be used is dropped; an error only when none is left
  /// (kUnavailable) or a disk belongs to another server (kConflict): one clear line.
  asio::awaitable<Status> start();
  /// Waits for what is under way; no writer or reader may be left.
  asio::awaitable<void> stop();

  /// Of the disks; made at the first start.
  const Identity& identity() const { return identity_; }
  /// Binds the disks to the cluster; kConflict when they belong to another one.
  asio::awaitable<Status> join_cluster(std::string cluster);

  /// kNoSpace, kLimitExceeded (kMaxOpenWriters), kInvalidArgument (sizes), kUnavailable (no disk works).
  asio::awaitable<Result<std::unique_ptr<ChunkWriter>>> create(Context context, ChunkId id,
                                                               std::string policy, uint64_t max_bytes);
  /// kNotFound; kCorrupt (quarantined, reported lost); kIoError.
  asio::awaitable<Result<std::unique_ptr<ChunkReader>>> open(Context context, ChunkId id,
                                                             ReadFor purpose = ReadFor::kBackground);
  /// Hidden at once, gone for good on return. kNotFound.
  asio::awaitable<Status> remove(Context context, ChunkId id);

  std::optional<ChunkInfo> find(ChunkId id) const;
  /// Up to `limit` chunks greater than `after`, sorted by id.
  std::vector<ChunkInfo> list(ChunkId after, size_t limit) const;
  /// Refreshed from the disks.
  asio::awaitable<StoreSpace> space();
  const StoreCounters& counters() const { return counters_; }
  size_t chunks() const { return index_.size(); }
  uint64_t stored_bytes() const { return stored_bytes_; }
  /// As last refreshed.
  StoreSpace known_space() const;
  size_t open_writers() const { return open_writers_; }
  ChunkCache& cache() { return cache_; }
  UsageProfile& usage() { return usage_; }
  /// Of each disk, since the start.
  std::vector<Duration> disk_busy_times() const;
  uint64_t disk_bytes_read() const;

  /// A chunk of this name is about to be written or committed: it is wanted here.
  std::function<void(ChunkId)> on_write = [](ChunkId) {};

  /// Chunks found corrupt or on a failed disk since the last call.
  std::vector<ChunkInfo> take_lost() { return std::exchange(lost_, {}); }

  /// For tests and tools: cleans segments until nothing is worth it.
  asio::awaitable<Status> clean_segments(Context context);

 private:
  friend class ChunkWriter;
  friend class ChunkReader;

  struct Root {
    Root(const runtime::Runtime& runtime, std::string path, SegmentLimits limits, uint64_t bytes_per_second)
        : device(runtime, bytes_per_second), disk(device, std::move(path)), segments(runtime, disk, limits) {}
    LimitedDisk device;
    DataDisk disk;
    SegmentLog segments;
    Identity identity;
  };
  struct Entry {
    ChunkInfo info;
    Root* root = nullptr;
    bool in_segment = false;
    uint64_t generation = 0;  ///< set by insert; a copy that replaces another has a new one
  };

  // chunk_store.cc
  asio::awaitable<Status> commit(Context context, ChunkWriter& writer, ChunkHeader header);
  asio::awaitable<Status> commit_claimed(Context context, ChunkWriter& writer, ChunkHeader header);
  asio::awaitable<Status> remove_claimed(Context context, ChunkId id);
  asio::awaitable<void> claim(ChunkId id);
  void unclaim(ChunkId id);
  OpenChunkCache& open_chunks(const Entry& entry) { return entry.in_segment ? open_records_ : open_files_; }
  /// kNotFound, kIoError.
  asio::awaitable<Status> remove_copy(Context context, Entry entry);
  asio::awaitable<void> remove_replaced(Context context, Entry old);
  Root* choose_root(ChunkId id, uint64_t max_bytes);
  Root* emptiest_root();
  Root& root_of(const DataDisk& disk);
  void discard_later(std::unique_ptr<ChunkFileWriter> file);
  asio::awaitable<void> discard(std::unique_ptr<ChunkFileWriter> file);
  void insert(const Entry& entry);
  void erase(ChunkId id);
  /// Into the cache, unless the copy that was read is no longer the one that is here.
  void admit(const OpenChunk& chunk, uint64_t block, std::span<const std::byte> bytes);
  /// Never served again: out of the index, into quarantine, reported lost. Nothing when another copy has
  /// taken the place of that `generation`.
  void drop_corrupt(ChunkId id, uint64_t generation, const Status& why);
  void drop_corrupt_record(Root& root, ChunkId id);
  asio::awaitable<void> put_away(Entry entry);
  void drop_disk(DataDisk& disk);

  // store_loader.cc
  asio::awaitable<Status> agree_on_identity();
  asio::awaitable<void> load_root(Root& root);
  asio::awaitable<Status> load_files(Root& root);
  asio::awaitable<void> load_names(Root& root, const std::vector<std::string>& names, std::string directory,
                                   size_t& next);
  asio::awaitable<void> load_file(Root& root, std::string directory, std::string name);
  void adopt(const Entry& entry);

  const runtime::Runtime runtime_;
  const StoreOptions options_;
  std::vector<std::unique_ptr<Root>> roots_;
  Identity identity_;
  std::map<ChunkId, Entry> index_;
  uint64_t stored_bytes_ = 0;
  uint64_t last_generation_ = 0;
  std::set<ChunkId> claimed_;  ///< being committed, removed or put away: one at a time
  runtime::Event unclaimed_;
  OpenChunkCache open_files_, open_records_;
  ChunkCache cache_;
  UsageProfile usage_;
  std::vector<ChunkInfo> lost_;
  StoreCounters counters_;
  size_t open_writers_ = 0;
  uint64_t small_bytes_ = 0;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::chunkserver

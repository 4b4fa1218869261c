/// All chunks of a chunkserver, on one or more disks.
///
/// Large chunks are files (chunk_file.h), small ones share segment files (segment_log.h); nobody outside can tell. A
/// chunk is visible from its commit on, which is durable. A disk that keeps failing is dropped alone.
///
/// The class is larger than others because opening, committing, removing and dropping a disk must agree on one index, its
/// claims and its caches: what could be told apart (ChunkIndex, ChunkLoader, OpenWriters, the caches) is beside it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/chunk_cache.h"
#include "chunkserver/store/chunk_index.h"
#include "chunkserver/store/chunk_reader.h"
#include "chunkserver/store/chunk_writer.h"
#include "chunkserver/store/disk/disk_calls.h"
#include "chunkserver/store/file_walk.h"
#include "chunkserver/store/open_chunk_cache.h"
#include "chunkserver/store/open_writers.h"
#include "chunkserver/store/removed_lately.h"
#include "chunkserver/store/store_options.h"
#include "chunkserver/store/surplus_copies.h"
#include "chunkserver/store/usage_profile.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

struct StoreSpace {
  uint64_t total_bytes = 0, free_bytes = 0;  ///< of all devices together
  std::vector<runtime::DiskSpace> devices;   ///< each once, though several disks may be directories of it
  uint64_t chunks = 0, stored_bytes = 0;
  uint32_t disks = 0, failed_disks = 0;
};

/// What is known of one disk, without asking it.
struct DiskReport {
  std::string path;
  DiskCondition condition = DiskCondition::kWell;
  std::string reason;  ///< for people; empty: it is well
  uint64_t total_bytes = 0, free_bytes = 0;
  uint64_t chunks = 0;
  uint64_t read_errors = 0, write_errors = 0;  ///< since the start
  bool full = false;                           ///< it takes nothing, whatever it reports
  uint64_t quarantined_files = 0, quarantined_bytes = 0;
  Duration oldest_call{};  ///< age of the oldest call that has not returned
};

struct ListedChunk {
  ChunkInfo info;
  uint32_t disk = 0;  ///< its position in the options
};

struct StoreCounters {
  uint64_t chunks_committed = 0, chunks_removed = 0;
  uint64_t disks_joined = 0;  ///< of those that hung at the start: a block report is to tell what is on them
  uint64_t corrupt_chunks = 0;  ///< found at start, by a read, or when the files were looked at (FileWalk)
};

/// Single-threaded, on the runtime's executor.
class ChunkStore {
 public:
  static constexpr size_t kMaxDisks = 64;
  static constexpr size_t kOpenFiles = 256;       ///< kept open for reading; each is a descriptor
  static constexpr size_t kOpenRecords = 16'384;  ///< the same for small chunks, which share descriptors

  ChunkStore(const runtime::Runtime& runtime, StoreOptions options);
  ~ChunkStore();  ///< after stop()

  /// Locks the disks, and finds the chunks on them, on all side by side. A disk that cannot be used, or that hangs, is dropped; one
  /// that hung joins when it answers (StoreCounters::disks_joined).
  /// kUnavailable: none is left;
  /// kConflict: a disk is in use by another process, and nothing on it was changed, or belongs to another server or
  /// cluster, in one clear line.
  asio::awaitable<Status> start();
  /// Waits for everything that is under way, and unlocks the disks. REQUIRES: no writer or reader is left.
  asio::awaitable<void> stop();

  /// Whose disks these are; made at the first start.
  const Identity& identity() const { return identity_; }
  /// Binds the disks to the cluster, in which this server has `number`; kConflict when they belong to another one.
  asio::awaitable<Status> join_cluster(std::string cluster, uint32_t number);
  /// Begins to write what the metaserver said of its metadata to each disk that takes writes; waits for none.
  void keep_metadata_mark(MetadataMark mark);

  /// kConflict: the chunk was removed from here lately. A client writes a chunk once, so that what it writes is late then.
  Status check_not_removed(ChunkId id);
  /// Begins to write a chunk of at most `max_bytes`. kNoSpace, kLimitExceeded (OpenWriters::kMaxWriters),
  /// kInvalidArgument (sizes), kUnavailable (no disk works).
  asio::awaitable<Result<std::unique_ptr<ChunkWriter>>> create(Context context, ChunkId id,
                                                               std::string policy, uint64_t max_bytes);
  /// Writes a chunk of at most one block as a whole: durable and visible on return. `data` is the chunk, and has the CRC that
  /// `header` names (kCorrupt). kConflict: it was removed lately, so this call is a late one. Other errors are those of create()
  /// and commit().
  asio::awaitable<Status> put_small(Context context, ChunkHeader header, std::span<const std::byte> data);
  /// Opens a chunk for reading. kNotFound; kCorrupt and kMediumError (it is quarantined and reported lost now); kIoError;
  /// kUnavailable: it was replaced meanwhile, and may be opened again, or its disk hangs.
  asio::awaitable<Result<std::unique_ptr<ChunkReader>>> open(Context context, ChunkId id,
                                                             ReadFor purpose = ReadFor::kBackground);
  /// The chunk is hidden at once, and gone for good on return. kNotFound.
  asio::awaitable<Status> remove(Context context, ChunkId id);

  std::optional<ChunkInfo> find(ChunkId id) const;
  /// The position of the disk that has the chunk.
  std::optional<uint32_t> disk_of(ChunkId id) const;
  /// Up to `limit` chunks greater than `after`, sorted by id.
  std::vector<ChunkInfo> list(ChunkId after, size_t limit) const;
  /// Lists chunks like list(), with the position of the disk of each.
  std::vector<ListedChunk> list_with_disks(ChunkId after, size_t limit) const;
  const StoreCounters& counters() const { return counters_; }
  size_t chunks() const { return index_.size(); }
  uint64_t stored_bytes() const { return index_.stored_bytes(); }
  /// The space as it was found last (DataDisk::kSpaceEvery): nothing waits for a disk here.
  StoreSpace known_space() const;
  /// One for each disk, in the order of the options.
  std::vector<DiskReport> disk_reports() const;
  size_t open_writers() const { return writers_.count(); }
  ChunkCache& cache() { return cache_; }
  UsageProfile& usage() { return usage_; }
  /// How long each disk was busy since the start.
  std::vector<Duration> disk_busy_times() const;
  uint64_t disk_bytes_read() const;

  /// Called when a chunk of this name is about to be written or committed: it is wanted here.
  std::function<void(ChunkId)> on_write = [](ChunkId) {};

  /// Takes the chunks that were found corrupt or missing, or were on a disk that failed, since the last call.
  std::vector<ChunkInfo> take_lost() { return std::exchange(lost_, {}); }

  /// For tests and tools: cleans segments until nothing is worth it.
  asio::awaitable<Status> clean_segments(Context context);

  // Used by ChunkWriter.
  /// Makes the chunk durable and visible. kAlreadyExists: another chunk has its name; an equal one is replaced. kUnavailable: the
  /// disk began to hang. After an error nothing of it is left, or will be when the disk answers.
  asio::awaitable<Status> commit(Context context, FinishedChunk chunk);
  void discard_later(std::shared_ptr<ChunkFileWriter> file);

  // Used by ChunkReader.
  DiskCalls& disk_calls() { return disk_calls_; }
  /// Puts a block that a user read into the cache, unless the copy that was read is no longer the one that is here.
  void admit(const OpenChunk& chunk, uint64_t block, std::span<const std::byte> bytes);
  /// The chunk is never served again: it leaves the index, a file goes to quarantine, a record is removed, and it is
  /// reported lost. Nothing happens when another copy has taken the place of that `generation`.
  void drop_corrupt(ChunkId id, uint64_t generation, const Status& why);

 private:
  using Entry = ChunkIndex::Entry;

  /// The disk for a chunk that is about to be written. Errors are those of create().
  asio::awaitable<Result<StoreRoot*>> admit(ChunkId id, size_t policy_bytes, uint64_t max_bytes);
  /// The commit itself, which owns what it uses: its caller may have gone when the disk answers.
  asio::awaitable<Status> carry_out_commit(Context context, FinishedChunk chunk,
                                           std::shared_ptr<const Interest> interest);
  using SharedClaim = std::shared_ptr<ChunkIndex::Claim>;
  asio::awaitable<Status> commit_claimed(Context context, FinishedChunk& chunk, const Interest& interest,
                                         SharedClaim claim);
  asio::awaitable<Status> remove_claimed(Context context, ChunkId id);
  /// Keeps the claim until the copy is gone, and may go on after its caller has.
  asio::awaitable<Status> remove_replaced(Context context, Entry old, SharedClaim claim);
  asio::awaitable<void> clear_away(Entry entry, ChunkIndex::Claim claim);
  asio::awaitable<void> discard(std::shared_ptr<ChunkFileWriter> file);
  StoreRoot* choose_root(ChunkId id, uint64_t max_bytes);
  OpenChunkCache& open_chunks(const Entry& entry) { return entry.in_segment ? open_records_ : open_files_; }
  /// Takes the chunk out of the index, and what is kept of it out of memory.
  std::optional<Entry> erase(ChunkId id);
  /// As drop_corrupt, with nothing in the log. Returns false when nothing happened.
  bool drop_lost(ChunkId id, uint64_t generation, Code why);
  void drop_corrupt_record(StoreRoot& root, ChunkId id);
  void drop_disk(StoreRoot& root);
  /// From here on the store is told what happens on the disk.
  void listen_to(StoreRoot& root);
  /// Begins what goes on all the time on a disk whose chunks were found.
  void begin_work(StoreRoot& root);
  /// Takes in the disk at this position, which hung at the start, when it answers.
  asio::awaitable<void> take_in(size_t position);

  const runtime::Runtime runtime_;
  const StoreOptions options_;
  std::vector<std::unique_ptr<StoreRoot>> roots_;  ///< by position; as many from the constructor on
  std::vector<std::unique_ptr<StoreRoot>>
      given_up_;  ///< of disks that hung at the start and joined since: others may still refer to these
  Identity identity_;
  ChunkIndex index_;
  OpenWriters writers_;
  OpenChunkCache open_files_, open_records_;
  ChunkCache cache_;
  UsageProfile usage_;
  RemovedLately removed_;
  std::vector<ChunkInfo> lost_;
  StoreCounters counters_;
  runtime::TaskGroup tasks_;  ///< committers, cleaners, guards, the walk, and what clears away after a chunk
  DiskCalls disk_calls_{runtime_};
  SurplusCopies surplus_;
  FileWalk walk_;
};

}  // namespace kintsugi::chunkserver

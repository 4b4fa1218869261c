/// All chunks of a chunkserver, on one or more disks.
///
/// Large chunks are files (chunk_file.h), small ones share segment files (segment_log.h); nobody outside can tell. A
/// chunk is visible from its commit on, which is durable. A disk that keeps failing is dropped alone.
///
/// Beside it is who does what: StoreDisks has the disks, StoredChunks knows what is on them and what was lost,
/// ChunkChanges commits and removes, ChunkReader and ChunkWriter carry the bytes.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/chunk_changes.h"
#include "chunkserver/store/chunk_reader.h"
#include "chunkserver/store/chunk_writer.h"
#include "chunkserver/store/file_walk.h"
#include "chunkserver/store/open_writers.h"
#include "chunkserver/store/store_disks.h"
#include "chunkserver/store/store_options.h"
#include "chunkserver/store/stored_chunks.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

struct ListedChunk {
  ChunkInfo info;
  uint32_t disk = 0;  ///< position of the disk in the options
};

struct StoreCounters {
  uint64_t chunks_committed = 0, chunks_removed = 0;
  /// Disks that hung at the start and have answered since: a block report must tell what is on them.
  uint64_t disks_joined = 0;
  /// Second copies that are used since the first was deleted or lost: a block report must tell of them, too.
  uint64_t copies_found = 0;
  /// Damaged chunks found at the start, by a read, or by FileWalk.
  uint64_t corrupt_chunks = 0;
};

/// Single-threaded, on the runtime's executor.
class ChunkStore {
 public:
  ChunkStore(const runtime::Runtime& runtime, StoreOptions options);
  ~ChunkStore();  ///< REQUIRES: stop() has returned

  /// Locks the disks, and finds the chunks on them, on all side by side. A disk that cannot be used, or that hangs, is
  /// dropped; one that hung joins when it answers (StoreCounters::disks_joined).
  /// kUnavailable: none is left;
  /// kConflict: a disk is in use by another process, and nothing on it was changed, or belongs to another server or
  /// cluster, in one clear line; kNotSupported: a disk has a format that this program does not know, likewise.
  asio::awaitable<Status> start();
  /// Waits for everything that is under way, and unlocks the disks. REQUIRES: no writer or reader is left.
  asio::awaitable<void> stop();

  /// The owner of the disks; made at the first start.
  const Identity& identity() const { return disks_.identity(); }
  /// Binds the disks to the cluster, in which this server has `number`, and keeps the cluster's format (0: not told) on
  /// them. kConflict: they belong to another one.
  asio::awaitable<Status> join_cluster(std::string cluster, uint32_t number, uint32_t format = 0) {
    return disks_.join_cluster(std::move(cluster), number, format);
  }
  /// Begins to write what the metaserver said of its metadata to each disk that takes writes; waits for none.
  void keep_metadata_mark(MetadataMark mark) { disks_.keep_metadata_mark(mark); }

  /// kConflict: the chunk was removed within RemovedLately::kMemory. A client writes each chunk once, so this is a late
  /// write.
  Status check_not_removed(ChunkId id) { return changes_.check_not_removed(id); }
  /// Begins to write a chunk of at most `max_bytes`. kNoSpace, kLimitExceeded (OpenWriters::kMaxWriters),
  /// kInvalidArgument (sizes), kUnavailable (no disk works).
  asio::awaitable<Result<std::unique_ptr<ChunkWriter>>> create(Context context, ChunkId id,
                                                               std::string policy, uint64_t max_bytes);
  /// Writes a chunk of at most one block as a whole: durable and visible on return. `data` is the chunk, and has the
  /// CRC that `header` names (kCorrupt). kConflict: it was removed lately, so this call is a late one. Other errors
  /// are those of create() and ChunkChanges::commit().
  asio::awaitable<Status> put_small(Context context, ChunkHeader header, std::span<const std::byte> data);
  /// Opens a chunk for reading. kNotFound; kCorrupt and kMediumError (it is quarantined and reported lost now);
  /// kIoError; kUnavailable: it was replaced meanwhile, and may be opened again, or its disk hangs.
  asio::awaitable<Result<std::unique_ptr<ChunkReader>>> open(Context context, ChunkId id,
                                                             ReadFor purpose = ReadFor::kBackground);
  /// The chunk is hidden at once, and gone for good on return. kNotFound.
  asio::awaitable<Status> remove(Context context, ChunkId id) { return changes_.remove(context, id); }

  std::optional<ChunkInfo> find(ChunkId id) const;
  /// The position of the disk that has the chunk.
  std::optional<uint32_t> disk_of(ChunkId id) const;
  /// Up to `limit` chunks greater than `after`, sorted by id.
  std::vector<ChunkInfo> list(ChunkId after, size_t limit) const;
  /// Lists chunks like list(), with the position of the disk of each.
  std::vector<ListedChunk> list_with_disks(ChunkId after, size_t limit) const;
  StoreCounters counters() const;
  size_t chunks() const { return chunks_.index().size(); }
  uint64_t stored_bytes() const { return chunks_.index().stored_bytes(); }
  /// The space as it was found last (DataDisk::kSpaceEvery): nothing waits for a disk here.
  StoreSpace known_space() const { return disks_.known_space(); }
  /// One for each disk, in the order of the options.
  std::vector<DiskReport> disk_reports() const { return disks_.reports(); }
  size_t open_writers() const { return writers_.count(); }
  ChunkCache& cache() { return chunks_.cache(); }
  UsageProfile& usage() { return chunks_.usage(); }
  /// How long each disk was busy since the start.
  std::vector<Duration> disk_busy_times() const { return disks_.busy_times(); }
  /// Reads, writes and syncs that run or wait for their turn; by disk.
  std::vector<size_t> disk_calls_under_way() const { return disks_.calls_under_way(); }
  /// For tests.
  uint64_t disk_bytes_read() const { return disks_.bytes_read(); }

  /// Names who is told from here on that chunks are written; null: nobody is.
  void set_listener(WriteListener* listener) { changes_.set_listener(listener); }

  /// Takes the chunks that were found corrupt or missing, or were on a disk that failed, since the last call.
  std::vector<ChunkInfo> take_lost() { return chunks_.take_lost(); }

  /// For tests and tools: cleans segments until nothing is worth it.
  asio::awaitable<Status> clean_segments(Context context) { return disks_.clean_segments(context); }

 private:
  /// Whether a chunk may be written now. Errors are those of create().
  Status begin_write(ChunkId id, size_t policy_bytes, uint64_t max_bytes);
  /// Opens a chunk of at most one block that is in a segment, without the disk (SegmentLog::open_one_block). Null: it is
  /// longer, or has a file of its own.
  static std::shared_ptr<OpenChunk> open_one_block(const ChunkIndex::Entry& entry);

  const runtime::Runtime runtime_;
  const StoreOptions options_;
  /// Committers, cleaners, guards, the file walk, and the removal of files of deleted chunks.
  runtime::TaskGroup tasks_;
  StoredChunks chunks_;
  StoreDisks disks_;
  ChunkChanges changes_;
  OpenWriters writers_;
  FileWalk walk_;
};

}  // namespace kintsugi::chunkserver

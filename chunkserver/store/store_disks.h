/// The disks of a chunk store: whose they are, which of them gets a new chunk, and what is known of each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/disk/disk_calls.h"
#include "chunkserver/store/store_options.h"
#include "chunkserver/store/stored_chunks.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

struct StoreSpace {
  uint64_t total_bytes = 0, free_bytes = 0;  ///< sum over `devices`
  /// Each device once, though several disks may be directories of it.
  std::vector<runtime::DiskSpace> devices;
  uint64_t chunks = 0, stored_bytes = 0;
  uint32_t disks = 0, failed_disks = 0;
};

/// What is known of one disk, without asking it.
struct DiskReport {
  std::string path;
  DiskCondition condition = DiskCondition::kWell;
  std::string reason;  ///< human-readable; empty: the disk is well
  uint64_t total_bytes = 0, free_bytes = 0;
  uint64_t chunks = 0;
  uint64_t read_errors = 0, write_errors = 0;  ///< counted since the start
  bool full = false;                           ///< the disk accepts nothing, whatever free space it reports
  uint64_t quarantined_files = 0, quarantined_bytes = 0;
  Duration oldest_call{};  ///< age of the oldest call that has not returned
};

/// A disk that cannot be used, or that hangs at the start, is dropped alone; one that hung joins when it answers.
/// References outlive it.
class StoreDisks {
 public:
  static constexpr size_t kMaxDisks = 64;

  /// `chunks` are those on these disks. Background work on a disk runs in `tasks`.
  StoreDisks(const runtime::Runtime& runtime, const StoreOptions& options, StoredChunks& chunks,
             runtime::TaskGroup& tasks);

  /// Locks the disks, and finds the chunks on them, on all side by side. Errors are those of ChunkStore::start().
  asio::awaitable<Status> start();
  /// Segments take nothing more from here on.
  void stop_segments();
  /// Lets another process have the disks. REQUIRES: the tasks have ended.
  void unlock();

  /// The owner of the disks; made at the first start.
  const Identity& identity() const { return identity_; }
  /// Binds the disks to the cluster, in which this server has `number`, and keeps the cluster's format (0: not told) on
  /// them. kConflict: they belong to another one.
  asio::awaitable<Status> join_cluster(std::string cluster, uint32_t number, uint32_t format);
  /// Begins to write what the metaserver said of its metadata to each disk that takes writes; waits for none.
  void keep_metadata_mark(MetadataMark mark);

  /// The disk for a chunk of at most `max_bytes` that is about to be written, which has room for it. kNoSpace;
  /// kUnavailable: no disk works, or the one that was chosen hangs.
  asio::awaitable<Result<StoreRoot*>> disk_for(ChunkId id, uint64_t max_bytes);
  DiskCalls& calls() { return calls_; }

  /// By position. They stay where they are, though a disk that joins late takes the place of the one that hung.
  StoreRoots roots() const { return roots_; }
  /// How many have joined that hung at the start.
  uint64_t joined() const { return joined_; }
  /// The space as it was found last (DataDisk::kSpaceEvery): nothing waits for a disk here.
  StoreSpace known_space() const;
  /// One for each disk, in the order of the options.
  std::vector<DiskReport> reports() const;
  /// How long each disk was busy since the start.
  std::vector<Duration> busy_times() const;
  std::vector<size_t> calls_under_way() const;
  uint64_t bytes_read() const;

  /// Cleans segments until nothing is worth it.
  asio::awaitable<Status> clean_segments(Context context);

 private:
  StoreRoot* choose(ChunkId id, uint64_t needed) const;
  /// Begins the background work on a disk whose chunks were found.
  void begin_work(StoreRoot& root);
  /// Takes in the disk at this position, which hung at the start, when it answers.
  asio::awaitable<void> take_in(size_t position);

  const runtime::Runtime& runtime_;
  const StoreOptions& options_;
  StoredChunks& chunks_;
  runtime::TaskGroup& tasks_;
  /// Index: position of the disk. The number of entries never changes.
  std::vector<std::unique_ptr<StoreRoot>> roots_;
  /// Disks that hung at the start and joined since: others may still refer to these.
  std::vector<std::unique_ptr<StoreRoot>> given_up_;
  Identity identity_;
  uint64_t joined_ = 0;
  DiskCalls calls_;
};

}  // namespace kintsugi::chunkserver

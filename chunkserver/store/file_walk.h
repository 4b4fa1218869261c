/// Finds chunks whose files went away, or were cut off, before anybody misses them.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/store_root.h"
#include "chunkserver/store/stored_chunks.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// Goes round and round through everything that the index knows, and asks the disks whether the files are there and as
/// long as they must be; no file is opened or read. A read would find the same, but parity may not be read for years,
/// and a file that is open reads well after it was removed.
///
/// A chunk whose own file is gone is lost. A segment that is gone is open here, so that its chunks are saved: they are
/// copied into another one (SegmentLog::give_up). References outlive it.
class FileWalk {
 public:
  static constexpr uint64_t kFilesPerSecond = 1000;
  static constexpr Duration kBetweenRounds = std::chrono::minutes(1);
  /// Entries of the index that are examined between two pauses.
  static constexpr size_t kEntriesAtOnce = 100;
  /// Lost chunks that get a log line each; further ones are counted.
  static constexpr size_t kNamedPerRound = 10;

  FileWalk(StoredChunks& chunks, StoreRoots roots, runtime::TaskGroup& tasks)
      : chunks_(chunks), roots_(roots), tasks_(tasks) {}

  /// Walks until the tasks stop.
  asio::awaitable<void> run();

 private:
  asio::awaitable<void> walk_chunk_files();
  asio::awaitable<void> walk_segments(StoreRoot& root);
  asio::awaitable<void> look_at(ChunkIndex::Entry entry);
  asio::awaitable<void> look_at(StoreRoot& root, std::shared_ptr<Segment> segment);
  /// Waits as long as `files` may take. False: the tasks stop.
  asio::awaitable<bool> pause(size_t files);
  void lose(const ChunkIndex::Entry& entry, const Status& why);

  StoredChunks& chunks_;
  const StoreRoots roots_;
  runtime::TaskGroup& tasks_;
  size_t lost_ = 0;  ///< lost chunks found in this round
};

}  // namespace kintsugi::chunkserver

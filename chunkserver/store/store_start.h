/// Makes the disks of a store ready, side by side.
#pragma once

#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/chunk_index.h"
#include "chunkserver/store/chunk_loader.h"
#include "chunkserver/store/store_root.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// Its calls are made once each, in their order. A disk that cannot be used is dropped, and comes back at the next
/// start of the server. One that hangs meanwhile is dropped, too, and what its calls find when it answers is taken in
/// by nobody: LateDisk looks for its chunks anew. References outlive it, and `tasks`.
class StoreStart {
 public:
  StoreStart(const runtime::Runtime& runtime, StoreRoots roots, runtime::TaskGroup& tasks)
      : runtime_(runtime), roots_(roots), tasks_(tasks) {}

  /// Locks all of them, before the first change. kConflict: another process has one, so that this server does nothing.
  asio::awaitable<Status> lock();
  /// Makes their rooms, and finds out whose they are. Errors are those of agree_on_identity().
  asio::awaitable<Result<Identity>> prepare();
  /// Puts their chunks into the index. Of a chunk that several disks have, that of the first disk is used.
  asio::awaitable<void> load(ChunkIndex& index);

  /// What load() found, as ChunkLoader says it.
  const std::vector<ChunkId>& unusable() const { return unusable_; }
  const std::vector<ChunkIndex::Entry>& surplus() const { return surplus_; }
  /// The disks that were dropped because they hung.
  const std::vector<StoreRoot*>& hung() const { return hung_; }

 private:
  std::vector<StoreRoot*> usable() const;
  /// Drops the disk, which could not carry out a step of the start.
  void drop(StoreRoot& root, const Status& why);

  const runtime::Runtime& runtime_;
  const StoreRoots roots_;
  runtime::TaskGroup& tasks_;
  std::vector<ChunkId> unusable_;
  std::vector<ChunkIndex::Entry> surplus_;
  std::vector<StoreRoot*> hung_;
};

}  // namespace kintsugi::chunkserver

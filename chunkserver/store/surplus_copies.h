/// Copies of chunks that the store does not use, since an equal one lies on another of its disks.
#pragma once

#include <deque>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/chunk_index.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// Takes each off its disk as soon as that answers. A copy stays that differs from what is used: it may be the right
/// one. When the chunk was deleted or lost by then, the copy is the one that is used: a block report follows that tells of
/// it, so that it can be deleted. References outlive it.
class SurplusCopies {
 public:
  /// Pause between two checks whether hung disks answer.
  static constexpr Duration kLookAgain = std::chrono::seconds(10);

  SurplusCopies(const runtime::Runtime& runtime, ChunkIndex& index)
      : index_(index), clock_(runtime.clock), added_(runtime) {}

  void add(ChunkIndex::Entry copy);
  /// Removes what was added, until the tasks stop.
  asio::awaitable<void> run(runtime::TaskGroup& tasks);
  /// How many were used after all.
  uint64_t used() const { return used_; }

 private:
  asio::awaitable<void> remove(ChunkIndex::Entry copy);
  /// REQUIRES: the caller has the chunk's claim, and no copy of it is used.
  asio::awaitable<void> use(ChunkIndex::Entry copy);

  ChunkIndex& index_;
  const runtime::Clock& clock_;
  std::deque<ChunkIndex::Entry> copies_;
  runtime::Event added_;
  uint64_t used_ = 0;
};

}  // namespace kintsugi::chunkserver

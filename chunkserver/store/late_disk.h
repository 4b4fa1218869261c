/// A disk that hung when its server started, and joins the running store when it answers.
#pragma once

#include <memory>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/chunk_index.h"
#include "chunkserver/store/chunk_loader.h"
#include "chunkserver/store/store_options.h"
#include "chunkserver/store/surplus_copies.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"

namespace kintsugi::chunkserver {

/// What its start left under way finds out late what the disk has, and may still change it: so the disk gets a
/// StoreRoot of its own once that has ended, and goes through the steps of a start with it. References outlive it.
class LateDisk {
 public:
  /// The disk may hang so often while its chunks are looked for; then it waits for the next start of the server.
  static constexpr int kMostAttempts = 8;
  /// Pause between two checks whether the disk has answered.
  static constexpr Duration kLookEvery = std::chrono::seconds(1);

  LateDisk(const runtime::Runtime& runtime, const StoreOptions& options, runtime::TaskGroup& tasks)
      : runtime_(runtime), options_(options), tasks_(tasks) {}

  struct Found {
    std::unique_ptr<StoreRoot> root;
    std::shared_ptr<ChunkLoader> chunks;
  };
  /// Waits until the disk of `hung` answers, and finds what is on it. Without a root: the disk cannot be used, as the
  /// log says, or the tasks stop. `identity` is the server's. REQUIRES: `hung` failed in a step of the start, since it
  /// hung.
  asio::awaitable<Found> find(StoreRoot& hung, const Identity& identity);

 private:
  /// False: the tasks stop.
  asio::awaitable<bool> wait_for_steps(const StoreRoot& root);
  asio::awaitable<Status> start(StoreRoot& root, std::shared_ptr<ChunkLoader> chunks,
                                const Identity& identity);
  asio::awaitable<Status> step(StoreRoot& root, asio::awaitable<Status> work);

  const runtime::Runtime& runtime_;
  const StoreOptions& options_;
  runtime::TaskGroup& tasks_;
};

/// Puts what was found on a disk into the index of a store that runs, some chunks a turn. Those that the store has on
/// another disk are surplus. Returns how many were put there.
asio::awaitable<size_t> merge(const runtime::Runtime& runtime, std::vector<ChunkIndex::Entry> found,
                              ChunkIndex& index, SurplusCopies& surplus, runtime::TaskGroup& tasks);

}  // namespace kintsugi::chunkserver

/// Deletes the chunks that the metaserver no longer wants on this server.
#pragma once

#include <deque>
#include <set>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/chunk_store.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::chunkserver {

/// An order is withdrawn when a chunk of its name is written before it was carried out: the order was given before the
/// new copy was.
class ChunkDeleter {
 public:
  static constexpr size_t kMaxOrders = 100'000;  ///< more than a metaserver ever leaves unconfirmed
  static constexpr size_t kDeletesAtOnce = 16;

  /// References outlive it. Takes the store's on_write from start() to stop().
  ChunkDeleter(const runtime::Runtime& runtime, ChunkStore& store, sight::Recorder& recorder)
      : runtime_(runtime), store_(store), recorder_(recorder), wakeup_(runtime), tasks_(runtime) {}

  void start();
  /// Waits for deletes that are under way; the others are dropped.
  asio::awaitable<void> stop();
  /// The chunk is deleted as soon as may be. Nothing happens when that was ordered already. False: too many orders wait.
  bool order(ChunkId id);

  /// Orders are numbered from 1 as they come. All up to ordered() have come; all up to carried_out() are done.
  uint64_t ordered() const { return ordered_through_; }
  uint64_t carried_out() const { return running_.empty() ? begun_through_ : *running_.begin() - 1; }

 private:
  asio::awaitable<void> run();
  asio::awaitable<void> delete_some();

  const runtime::Runtime& runtime_;
  ChunkStore& store_;
  sight::Recorder& recorder_;
  std::deque<ChunkId> queue_;
  std::set<ChunkId> standing_;  ///< orders in the queue that were not withdrawn
  uint64_t ordered_through_ = 0, begun_through_ = 0;
  std::set<uint64_t> running_;  ///< numbers of the orders that are being carried out
  runtime::Event wakeup_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::chunkserver

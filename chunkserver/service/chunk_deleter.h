/// Deletes the chunks that the metaserver no longer wants on this server.
#pragma once

#include <deque>
#include <map>
#include <set>

#include <boost/asio/awaitable.hpp>

#include "chunkserver/store/chunk_store.h"
#include "common/runtime/event.h"
#include "common/runtime/task_group.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::chunkserver {

/// An order is withdrawn when a chunk of its name is written before it was carried out: the order was given before the
/// new copy was. One that cannot be carried out, as on a disk that is full to the last byte, is tried again. One whose
/// disk is read-only or hangs counts as dealt with: the next block report names the chunk again if it is still there,
/// and is due as soon as a disk that hung answers.
class ChunkDeleter final : private WriteListener {
 public:
  static constexpr Duration kRetryAfter = std::chrono::seconds(10);
  static constexpr size_t kMaxOrders = 100'000;  ///< a metaserver never leaves so many unconfirmed
  static constexpr size_t kDeletesAtOnce = 16;
  /// A delete that takes longer waits for a disk that hangs: others begin beside it, and nothing waits for its end.
  static constexpr Duration kHeldUpAfter = DiskHealth::kHungAfter;
  /// Limit for held-up deletes on all disks together; a disk that hangs holds up at most kDeletesAtOnce of them.
  static constexpr size_t kMostHeldUp = 1024;

  /// References outlive it. The store tells it of writes from start() to stop().
  ChunkDeleter(const runtime::Runtime& runtime, ChunkStore& store, sight::Recorder& recorder)
      : runtime_(runtime), store_(store), recorder_(recorder), wakeup_(runtime), tasks_(runtime) {}

  void start();
  /// Waits for deletes that are under way; the others are dropped.
  asio::awaitable<void> stop();
  /// The chunk is deleted as soon as may be. Nothing happens when that was ordered already. False: too many orders
  /// wait.
  bool order(ChunkId id);

  /// Orders are numbered from 1 as they come. All up to ordered() have come; all up to carried_out() are done.
  uint64_t ordered() const { return ordered_through_; }
  uint64_t carried_out() const { return open_.empty() ? ordered_through_ : *open_.begin() - 1; }
  /// A disk that kept a chunk when it was to be deleted, because it hung, answers again: true once.
  bool take_kept();

 private:
  struct Order {
    ChunkId id;
    uint64_t number;
  };

  void on_write(ChunkId id) override;
  asio::awaitable<void> run();
  void try_failed_again();
  void leave_held_up();
  /// Begins deletes side by side, so that the tombstones of small chunks share a sync.
  void begin_deletes();
  /// When something is due that no event tells of.
  TimePoint due() const;
  asio::awaitable<void> carry_out(Order order);
  /// The order was not withdrawn, and no later one has taken its place.
  bool is_valid(const Order& order) const;
  void close(const Order& order);
  void note_hung_disk(ChunkId id);

  const runtime::Runtime& runtime_;
  ChunkStore& store_;
  sight::Recorder& recorder_;
  std::deque<Order> queue_, failed_;
  /// The valid orders: number of the order by chunk, until it is carried out or withdrawn.
  std::map<ChunkId, uint64_t> valid_orders_;
  std::set<uint64_t> open_;  ///< numbers of the orders that have arrived and are not settled
  uint64_t ordered_through_ = 0;
  TimePoint retry_at_{};  ///< when the failed orders are tried again
  /// When each running delete began, by the number of its order.
  std::map<uint64_t, TimePoint> under_way_;
  /// Positions of disks that hung when one of their chunks was to be deleted.
  std::set<uint32_t> hung_disks_;
  size_t held_up_ = 0;  ///< further running deletes, which have taken longer than kHeldUpAfter
  runtime::Event wakeup_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::chunkserver

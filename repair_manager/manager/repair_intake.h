/// Losses and wanted moves on their way to the queue: what a host tells is kept here until its stripe was looked up.
///
/// A server that dies takes tens of thousands of chunks along, and to look them all up takes many turns. What is cancelled
/// meanwhile is forgotten here as it is in the queue.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "repair_manager/joint/queue.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::repair_manager {

class RepairIntake {
 public:
  /// `view` outlives it.
  explicit RepairIntake(const ClusterView& view) : view_(view) {}

  /// `like` is the entry of each of the chunks, but for the chunk, its spare and its heat.
  void add(std::vector<ChunkId> chunks, QueueEntry like);

  /// The server is back: what was lost by its death is not.
  void server_returned(ServerId server);
  void moves_cancelled(ServerId from);
  /// Forgets chunks of stripes that are not `mine`.
  void keep_only(const std::function<bool(StripeId)>& mine);

  bool empty() const { return batches_.empty(); }
  size_t chunks() const;
  size_t moves() const;  ///< chunks of these

  /// The stripes of the next `most` chunks, in order.
  void for_each_next(size_t most, const std::function<void(StripeId)>& visit) const;
  /// Takes the next chunk, in the order in which they came. Nothing: there is none, or its stripe is not fetched.
  std::optional<QueueEntry> take();
  /// Fills in what the queue orders an entry by. False: it is not to be queued, for the chunk is where it should be, no longer
  /// where it was to be moved from, or nowhere known.
  bool look_up(QueueEntry& entry) const;

 private:
  struct Batch {
    std::vector<ChunkId> chunks;  ///< taken from the back; never empty
    QueueEntry like;
  };

  const ClusterView& view_;
  std::deque<Batch> batches_;
};

}  // namespace kintsugi::repair_manager

/// Losses and wanted moves on their way to the queue: what a host tells is kept here until its stripe was looked up.
///
/// A server that dies takes tens of thousands of chunks along, and to look them all up takes many turns. What is
/// cancelled meanwhile is forgotten here as it is in the queue.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "repair_manager/joint/queue.h"
#include "repair_manager/view/cluster_view.h"
#include "repair_manager/view/server_table.h"

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
  /// Forgets chunks of stripes that are not `mine`. They may be a million: each is forgotten when it is its turn,
  /// `mine` is asked then, and until then it counts. What is added from now on stays. A later call takes the place of
  /// this one.
  void keep_only(std::function<bool(StripeId)> mine);

  bool empty() const { return batches_.empty(); }
  size_t chunks() const { return chunks_; }
  size_t moves() const;  ///< number of entries that are moves

  /// The stripes of the next `most` chunks, in order, but for those that are to be forgotten.
  void for_each_next(size_t most, const std::function<void(StripeId)>& visit) const;
  /// Takes the next chunk, in the order in which they came, and forgets those before it that are to be forgotten, of
  /// all at most `most`, which it lowers. Nothing: there is none, or its stripe is not fetched.
  std::optional<QueueEntry> take(size_t& most);
  /// Fills in what the queue orders an entry by. False: it is not to be queued, for the chunk is where it should be,
  /// no longer where it was to be moved from, or nowhere known.
  bool look_up(QueueEntry& entry, const ServerTable& servers) const;
  /// The entry as its stripe is now, which may have lost more since look_up(); unchanged if nothing is known of that.
  QueueEntry renewed(const QueueEntry& entry, const ServerTable& servers) const;
  /// Entries for the other lost chunks of the stripe of a repair that is due. They may not have been told of yet, and
  /// one pass is to rebuild them all. What is on a dead server is among them only if the stripe cannot wait for its return.
  /// REQUIRES: look_up() has filled in the entry, with no suspension since.
  std::vector<QueueEntry> lost_beside(const QueueEntry& entry, const ServerTable& servers) const;

 private:
  struct Batch {
    std::vector<ChunkId> chunks;  ///< chunks that are taken from the back; never empty
    QueueEntry like;
    uint64_t number = 0;  ///< Batches are numbered in the order in which they came.
  };
  struct Keeping {
    std::function<bool(StripeId)> mine;
    uint64_t before = 0;  ///< Batches with smaller numbers came before keep_only() was called.
  };

  bool is_to_go(const Batch& batch, ChunkId chunk) const {
    return batch.number < keeping_.before && !keeping_.mine(chunk.stripe);
  }
  void forget(const std::function<bool(const Batch&)>& forgotten);

  const ClusterView& view_;
  std::deque<Batch> batches_;
  size_t chunks_ = 0;
  uint64_t next_number_ = 0;
  Keeping keeping_;
};

}  // namespace kintsugi::repair_manager

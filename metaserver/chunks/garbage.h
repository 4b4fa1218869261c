/// Chunks that are to be deleted on their servers.
///
/// The invariant: no server is ever ordered to delete a chunk that a stripe places there, nor one that is placed there
/// while the order may still be carried out. An order cannot be taken back, so both halves are needed:
///
/// 1. An order needs proof. judge() reads the stripe record in the same turn in which the order is given, and the
///    answer that carries it leaves only once all that was read is durable. A stale copy of a chunk that has another
///    place is deleted only while the server of that place has said that the chunk is there (ChunkMap::confirmed):
///    until then it may be the last one.
/// 2. From the moment in which a deletion is queued until it is confirmed, its key is in the store, and whoever places
///    chunks (Uploads::seal, RepairService::commit) refuses that server for that chunk. Only a deletion that certainly
///    was never ordered (withdrawable()) may be taken back.
///    What a server says to have done may be undone: a disk that hangs keeps a chunk. So a report that names the chunk
///    while its order is out counts for more than the answer to the order, which is then given again.
/// 3. A copy that a repair is making is placed by nobody yet, so it may be found and deleted as a stale one, or be lost
///    and told as lost before anybody looks for it there. Then its commit is refused (gone_lately()).
#pragma once

#include <deque>
#include <map>
#include <set>
#include <vector>

#include "common/base/ids.h"
#include "common/proto/meta.pb.h"
#include "common/runtime/clock.h"
#include "metaserver/chunks/chunk_map.h"
#include "metaserver/chunks/remembered_copies.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// The queue is durable (keys::garbage). This class hands it out through heartbeats and forgets what was done.
class Garbage {
 public:
  static constexpr size_t kMaxVictims = 1000;     ///< orders in one answer to a heartbeat
  static constexpr size_t kMaxInFlight = 10'000;  ///< unconfirmed orders of one server
  /// An order is forgotten when the server says that it is carried out, and no sooner than this: repair managers that
  /// run as daemons of their own may know the cluster as it was that long ago.
  static constexpr Duration kConfirmAfter = std::chrono::seconds(2);
  /// After a start, orders of the process before this one may be on their way: as long as a chunkserver's call
  /// may take.
  static constexpr Duration kOrdersOfLastProcess = std::chrono::seconds(10);
  static constexpr size_t kMaxRemembered = 100'000;
  static constexpr Duration kMemory = std::chrono::minutes(31);
  /// A process that is older protects no stripes of the one before it (Allocations).
  static constexpr Duration kMemoryOfOrphans = std::chrono::hours(1);
  /// A queue in which nothing could be deleted is looked at again after this.
  static constexpr Duration kPostponed = std::chrono::seconds(10);

  /// `chunks` must outlive it.
  Garbage(const ChunkMap& chunks, const runtime::Clock& clock)
      : chunks_(chunks), clock_(clock), started_(clock.now()) {}

  /// There may be something to delete on this server. To be called whenever a garbage key of it was put.
  void wake(ServerId server) { queues_[server].idle_until = TimePoint::min(); }
  void wake_all_of(const FreedStripes& freed);
  /// Stale copies may wait for what a server has told now.
  void wake_all();

  struct Orders {
    uint64_t number = 0;  ///< number that the server acknowledges; 0: no orders
    std::vector<ChunkId> victims;
  };
  /// Takes what the heartbeat acknowledges, and picks what its answer orders; the answer may leave once the transaction
  /// is durable. Orders that were carried out are forgotten; those that never arrived, and after a restart of the
  /// server all that are left, are given again. With `hold` nothing new is ordered.
  Orders exchange(Transaction& transaction, const proto::HeartbeatRequest& heartbeat, bool hold);

  /// A deletion of this chunk at this server is queued or ordered: nothing may be placed there under that name.
  static bool pending(const Reader& reader, ServerId server, ChunkId chunk) {
    return chunk.index <= keys::kMaxIndex && reader.get(keys::garbage(server, chunk)).has_value();
  }
  /// A deletion that is pending has certainly not been ordered, neither by this process nor by the one before it. Then
  /// its key may be removed: the chunk is wanted there after all.
  bool withdrawable(ServerId server, ChunkId chunk) const;
  /// The server has named the chunk in a block report, though its deletion is pending there.
  void named_again(ServerId server, ChunkId chunk);
  /// A pending deletion waits until the chunk is available at its place.
  bool postponed(const Reader& reader, ServerId server, ChunkId chunk) const {
    return judge(reader, server, chunk) == Verdict::kLater;
  }

  /// A copy of the chunk begins to be made on the server: what went there before was another copy. Copies on other
  /// servers may be those of repairs that have not ended yet.
  void copy_begins(ServerId server, ChunkId chunk);
  /// The server says that it has lost a copy of the chunk, which no stripe places there.
  void copy_lost(ServerId server, ChunkId chunk);
  /// The server has deleted or lost a copy of this chunk since copy_begins(). The last kMaxRemembered are remembered for
  /// kMemory, which is longer than a repair may take.
  bool gone_lately(ServerId server, ChunkId chunk) const { return gone_.contains(server, chunk); }
  /// This process has ordered the deletion of this chunk, of which there was no stripe, and the server has said that it
  /// is done. The last kMaxRemembered are remembered for kMemoryOfOrphans.
  bool deleted_as_orphan(ServerId server, ChunkId chunk) const { return orphans_.contains(server, chunk); }

 private:
  struct Order {
    uint64_t number;  ///< number of the heartbeat answer that carried the order
    TimePoint when;
    ChunkId chunk;
    bool stale = false;  ///< the stripe exists, and its chunk is on another server
  };
  struct Queue {
    uint64_t incarnation = 0;
    uint64_t next_number = 1;
    std::deque<Order> ordered;  ///< unconfirmed orders, oldest first
    /// Chunks of the unconfirmed orders; true: the server has named the chunk since it was ordered.
    std::map<ChunkId, bool> in_flight;
    TimePoint idle_until = TimePoint::min();
    /// Where the next look continues, so that chunks that must wait keep none behind them waiting; empty: at the front.
    std::string next_key;
    bool found = false;  ///< something could be deleted since the scan last began at the front
  };
  /// Returns the chunks whose keys it removed.
  std::set<ChunkId> confirm(Transaction& transaction, const proto::HeartbeatRequest& heartbeat, Queue& queue);
  enum class Verdict { kDeleteOrphan, kDeleteStale, kKeep, kLater };
  Verdict judge(const Reader& reader, ServerId server, ChunkId chunk) const;

  const ChunkMap& chunks_;
  const runtime::Clock& clock_;
  const TimePoint started_;
  std::map<ServerId, Queue> queues_;
  RememberedCopies gone_{kMemory, kMaxRemembered};  ///< deleted or lost copies whose chunk has another place
  RememberedCopies orphans_{kMemoryOfOrphans, kMaxRemembered};
};

}  // namespace kintsugi::metaserver

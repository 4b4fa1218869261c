/// Chunks that are to be deleted on their servers. The queue is durable (keys::garbage); this class hands it
/// out through heartbeats and forgets what was done.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <vector>

#include "common/base/ids.h"
#include "common/proto/meta.pb.h"
#include "common/runtime/clock.h"
#include "metaserver/cluster/chunk_map.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

/// A chunk is deleted only while it is not where a stripe says it is; a stale copy of a chunk that has
/// another place only while the one at that place is available.
class Garbage {
 public:
  static constexpr size_t kMaxVictims = 1000;     ///< a heartbeat
  static constexpr size_t kMaxInFlight = 10'000;  ///< a server
  /// A server that has sent another heartbeat this long after an order has the order, or never will: its call
  /// has ended. Until then nothing may be placed there under that name. What it has not carried out by then
  /// it drops when a chunk of that name is written to it.
  static constexpr Duration kConfirmAfter = std::chrono::seconds(2);
  /// After a start: as long as a call of a chunkserver may take that the process before this one answered.
  static constexpr Duration kOrdersOfLastProcess = std::chrono::seconds(10);
  static constexpr size_t kMaxRemembered = 100'000;
  static constexpr Duration kMemory = std::chrono::minutes(31);
  static constexpr Duration kPostponed =
      std::chrono::seconds(10);  ///< until what could not be deleted is looked at again

  /// `chunks` must outlive it.
  Garbage(const ChunkMap& chunks, const runtime::Clock& clock)
      : chunks_(chunks), clock_(clock), started_(clock.now()) {}

  /// There may be something for this server. To be called whenever a garbage key of it was put.
  void wake(ServerId server) { queues_[server].idle_until = TimePoint::min(); }
  void wake_all_of(const FreedStripes& freed);

  /// Picks what the answer to a heartbeat orders. A server that has gone on heartbeating for kConfirmAfter
  /// without a restart has carried an order out: its key is removed. After a restart everything is ordered
  /// again.
  std::vector<ChunkId> exchange(Transaction& transaction, ServerId server, uint64_t incarnation);

  /// A deletion of this chunk at this server is ordered or queued: nothing may be placed there under that
  /// name.
  static bool pending(const Reader& reader, ServerId server, ChunkId chunk) {
    return reader.get(keys::garbage(server, chunk)).has_value();
  }
  /// Whether a deletion that is pending has certainly not been ordered, neither by this metaserver nor by the
  /// one before its restart. Then its key may be removed: the chunk is wanted there after all.
  bool withdrawable(ServerId server, ChunkId chunk) const;
  /// A pending deletion waits until the chunk is available at its place.
  bool postponed(const Reader& reader, ServerId server, ChunkId chunk) const {
    return judge(reader, server, chunk) == Verdict::kLater;
  }

  /// A copy of the chunk begins to be made: what was deleted before was another one.
  void copy_begins(ChunkId chunk);
  /// The server has deleted a copy of this chunk since copy_begins: of what is remembered, kMaxRemembered
  /// deletions in kMemory, longer than a repair may take.
  bool deleted_lately(ServerId server, ChunkId chunk) const { return deleted_.contains({chunk, server}); }

 private:
  struct Order {
    TimePoint when;
    ChunkId chunk;
    bool stale = false;  ///< the stripe is still there: the chunk is elsewhere
  };
  struct Queue {
    uint64_t incarnation = 0;
    std::deque<Order> ordered;    ///< oldest first
    std::set<ChunkId> in_flight;  ///< the same
    TimePoint idle_until = TimePoint::min();
  };
  void confirm(Transaction& transaction, ServerId server, uint64_t incarnation, Queue& queue);
  void remember(ServerId server, ChunkId chunk);
  enum class Verdict { kDeleteOrphan, kDeleteStale, kKeep, kLater };
  Verdict judge(const Reader& reader, ServerId server, ChunkId chunk) const;

  const ChunkMap& chunks_;
  const runtime::Clock& clock_;
  const TimePoint started_;
  std::map<ServerId, Queue> queues_;
  using Copy = std::pair<ChunkId, ServerId>;
  std::map<Copy, TimePoint> deleted_;                       ///< copies of chunks that are elsewhere, and when
  std::deque<std::pair<TimePoint, Copy>> deleted_by_time_;  ///< oldest first; some may be forgotten already
};

}  // namespace kintsugi::metaserver

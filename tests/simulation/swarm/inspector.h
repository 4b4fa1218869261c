/// Compares what the metaserver holds durably with what chunkservers hold, without asking either and without time passing.
///
/// It also keeps the account of losses: what faults took from the cluster on purpose, and whether a further loss would
/// still be within what the codes survive.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/proto/store.pb.h"
#include "tests/simulation/cluster/simulated_cluster.h"
#include "tests/simulation/swarm/violation.h"

namespace kintsugi::simulation {

/// Thrown when a stripe lost more than its code bears, as it was allowed to: it was written with chunks missing while a server
/// was in doubt that had others of it. Such a run proves nothing more.
struct BeyondWhatCodesBear {};

class Inspector {
 public:
  explicit Inspector(SimulatedCluster& cluster);

  /// To be called after every step. Finds chunks that are gone though nothing took them, stripes beyond repair, and
  /// stripes with two chunks on one server. Throws BeyondWhatCodesBear.
  Finding look();

  // ---- the account of losses
  /// Every stripe would survive the loss of all chunks of this server, and nothing is in doubt on another one.
  bool may_lose(size_t server) const;
  /// Every stripe would survive the loss of this chunk.
  bool may_lose(size_t server, ChunkId chunk) const;
  /// The chunk was damaged on purpose; nobody need have noticed.
  void damaged(size_t server, ChunkId chunk);
  /// Whatever this server holds may be gone, and what it is given too, until it starts again.
  void damaged(size_t server);
  /// `lacks_a_disk`: what is on a disk that hangs or is read-only at a start counts as lost until it joins, or until the
  /// next start.
  void started_again(size_t server, bool lacks_a_disk) {
    servers_[server].started_again = true;
    servers_[server].lacks_a_disk = lacks_a_disk;
    servers_[server].on_the_disk.clear();
  }
  /// From now on a disk of it hangs or is read-only: a start that is under way may go on without that disk.
  void disk_may_be_dropped(size_t server) {
    const bool starts = cluster_.running(server) && cluster_.store(server) == nullptr;
    if (starts) servers_[server].lacks_a_disk = true;
  }
  /// To be called when no write is under way: what servers hold that were in doubt and started again is certain then.
  void no_write_is_under_way();
  /// Every chunk was read and found whole, or repaired; no server is in doubt any more.
  void nothing_is_damaged();
  /// The disks of a server that does not run are empty now.
  void emptied(size_t server);
  /// Compares with these metadata instead of those of the metaserver, which somebody rolled back; null: no longer.
  void compare_with(const MemoryStoreDisk::Map* metadata) { instead_ = metadata; }

  // ---- what must be true some time after all faults
  /// Every chunk of every stripe is in its place on a running server. kUnavailable says which is not.
  Status whole() const;
  /// No rack holds more chunks of a stripe than it must, given the servers that run. REQUIRES: no server ever failed.
  Finding spread() const;
  /// Nothing is kept that no file refers to: neither stripes nor chunks, but for those that metadata name as kept in
  /// quarantine. kUnavailable says what is.
  Status tidy() const;
  /// What was placed on a server once and is not any more has been deleted there, without a restart, or is kept in
  /// quarantine.
  Status cleared() const;

  /// Chunks of files on this server, as metadata place them.
  std::vector<ChunkId> chunks_on(size_t server) const;
  bool holds(size_t server, ChunkId chunk) const { return servers_[server].chunks.contains(chunk); }

 private:
  struct Server {
    ServerId id;                    ///< as last seen; 0 before its first start
    std::set<ChunkId> chunks;       ///< that it held when it was last seen to run
    std::set<ChunkId> doubtful;     ///< of them: damaged on purpose
    std::set<ChunkId> excused;      ///< gone for a reason, though metadata may still place them here
    bool in_doubt = false;          ///< as a whole
    bool started_again = false;     ///< since it came into doubt
    bool lacks_a_disk = false;      ///< which hung or was read-only when it started, and has not joined yet
    std::set<ChunkId> on_the_disk;  ///< of the excused: they are gone for no other reason
  };
  using Stripes = std::map<StripeId, proto::StoredStripe>;

  const MemoryStoreDisk::Map& metadata() const;
  Stripes stripes() const;
  void see_servers();
  /// A disk that hung at the start has joined: what was excused for it is excused no longer.
  void note_joined(Server& server, const chunkserver::ChunkStore& store);
  Finding look_at(StripeId id, const proto::StoredStripe& stripe) const;
  const Server* server_with(ServerId id) const;
  /// The metadata place the chunk on this server, or keep it there in quarantine.
  bool accounted_for(const Stripes& all, ServerId server, ChunkId chunk) const;
  /// How many chunks of the stripe are gone; with `pessimistic` also those in doubt.
  size_t losses(StripeId id, const proto::StoredStripe& stripe, bool pessimistic) const;
  /// How many of its chunks may be gone.
  static size_t tolerated(const proto::StoredStripe& stripe);

  SimulatedCluster& cluster_;
  std::vector<Server> servers_;
  /// Every place that a chunk ever had on a disk that is still there.
  std::set<std::pair<ServerId, ChunkId>> placed_;
  std::set<StripeId> seen_,
      endangered_;  ///< stripes; endangered by what was missing or in doubt at first sight
  const MemoryStoreDisk::Map* instead_ = nullptr;
};

}  // namespace kintsugi::simulation

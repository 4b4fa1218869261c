/// Wants chunks to move: all of a server that is being drained, and some of a server that is much fuller than another.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/proto/sight.pb.h"
#include "common/proto/store.pb.h"
#include "common/runtime/clock.h"
#include "metaserver/chunks/chunk_map.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/cluster/slow_servers.h"
#include "metaserver/repair/move_backoff.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

struct WantedMove {
  ChunkId chunk;
  ServerId from;
  ServerId to;  ///< none: the repair manager chooses
  std::string why;
};

/// Keeps a bounded number of moves wanted and leaves it to the repair manager to make them: it has the slots and the
/// caps that keep them out of users' way. Wanted moves are not stored: they follow from which server holds what and
/// which is drained. A move has ended when the chunk is no longer where it was. A drain comes first: balance waits
/// until it is over.
class Rebalancer {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(250);  ///< pause between two steps
  static constexpr size_t kMaxOfADrain = 1024;  ///< queued moves away from one draining server
  static constexpr size_t kMaxWanted = 8192;    ///< queued moves in all
  /// Difference of used shares between servers that is left alone.
  static constexpr double kTolerated = 0.10;
  /// A new server fills in hours: filling it must not cost the throughput it was bought for.
  static constexpr uint64_t kBalanceBytesASecond = 64 << 20;
  /// Bytes wanted to move for balance at once; a single chunk may be larger.
  static constexpr uint64_t kMaxBalanceBytes = 256 << 20;
  static constexpr size_t kMaxBalanceMoves = 256;
  static constexpr size_t kMaxScanned = 4096;  ///< chunks of a server examined in one step
  /// A copy that was moved away is deleted within this.
  static constexpr Duration kDeletion = std::chrono::seconds(5);
  /// A wanted move is told again after this: the repair manager that knew of it may have died.
  static constexpr Duration kRemind = std::chrono::seconds(10);
  /// A move for balance that has not ended after this came to nothing, however often it was tried: the two servers are
  /// left alone for a while (MoveBackoff).
  static constexpr Duration kPatience = std::chrono::minutes(2);

  /// References outlive it.
  Rebalancer(const ServerRegistry& servers, const ChunkMap& chunks, const SlowServers& slow,
             const runtime::Clock& clock)
      : servers_(servers), chunks_(chunks), slow_(slow), clock_(clock) {}

  /// News for the repair manager after a step. The cancelled ones are to be told first.
  struct Changes {
    std::vector<ServerId> cancelled;  ///< servers that no chunk needs to leave any more
    std::vector<WantedMove> wanted;
  };
  /// Forgets moves that ended and wants more. Bounded work.
  Changes step(const Reader& reader);
  /// Nobody is there to make moves: forgets those that are wanted, which is held against no server.
  void forget_wanted();

  size_t wanted() const { return wanted_.size(); }
  /// Moves for balance to this server that are held back, since others failed.
  std::optional<proto::HeldBackMoves> held_back(ServerId to) const;

 private:
  struct Wanted {
    ServerId from, to;
    uint64_t bytes = 0;
    bool drain = false;
    TimePoint since;
    TimePoint told;
  };
  /// Bytes that were moved away and will soon be deleted where they were.
  struct Leaving {
    TimePoint until;
    ServerId from;
    uint64_t bytes = 0;
  };
  /// A server's share of used bytes, with what is on its way counted as there.
  struct Fill {
    ServerId server;
    std::string rack;
    double total = 0, used = 0;
    double share() const { return used / total; }
  };

  void forget_ended(const Reader& reader, Changes& changes);
  /// The move for balance came to nothing.
  void note_failed(ChunkId chunk, const Wanted& wanted);
  void remind(Changes& changes);
  void drain(const Reader& reader, ServerId server, Changes& changes);
  void balance(const Reader& reader, Changes& changes);
  std::vector<Fill> fills() const;
  /// Wants one chunk of `from` to move to `to`. False: none was found among those looked at.
  bool want_one(const Reader& reader, Fill& from, Fill& to, size_t& scanned, Changes& changes);
  bool may_move(const proto::StoredStripe& stripe, ChunkId chunk, const Fill& to) const;
  /// Visits chunks of the server from where the last scan of it ended, round and round, each once at most.
  void scan(const Reader& reader, ServerId server, size_t at_most,
            const std::function<bool(ChunkId, const proto::StoredStripe&)>& visit);
  void want(ChunkId chunk, Wanted wanted, Changes& changes);
  void tell(ChunkId chunk, Wanted& wanted, Changes& changes);

  const ServerRegistry& servers_;
  const ChunkMap& chunks_;
  const SlowServers& slow_;
  const runtime::Clock& clock_;
  std::map<ChunkId, Wanted> wanted_;
  std::map<ServerId, size_t> drained_;  ///< queued moves of each draining server
  std::map<ServerId, ChunkId> scanned_to_;
  uint64_t balance_bytes_ = 0;  ///< sum over the queued moves for balance
  size_t balance_moves_ = 0;
  TimePoint next_balance_{};
  MoveBackoff backoff_;
  std::deque<Leaving> leaving_;  ///< earliest first
};

}  // namespace kintsugi::metaserver

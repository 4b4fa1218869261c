/// Shares the stripes out among repair managers.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/base/repair_shard.h"
#include "common/base/status.h"
#include "common/proto/formats.h"
#include "common/runtime/clock.h"

namespace kintsugi::metaserver {

/// Knows the repair managers, and gives each its shards by rendezvous hashing: when one comes or goes, only its own
/// shards change hands. Without any, all shards are nobody's, and nothing is repaired.
///
/// A manager acts on an answer for kLease from when it asked, and is replaced kGone after it was last heard: so one
/// that is cut off has stopped starting repairs before another begins. A shard of a manager that lives goes to a new
/// one only once the old one has been told. All of this is in memory: after a restart of the metaserver the managers
/// have kSettle to come back before shards are given out. A cluster that was just made waits for nobody.
class RepairShards {
 public:
  using ManagerId = uint64_t;  ///< random, chosen at each start of a daemon; 0: none
  struct Manager {
    std::string address, http_address;
    TimePoint last_heard;
    uint64_t epoch = 0;          ///< changes whenever the manager's shards change
    uint32_t newest_format = 0;  ///< the newest format that its program says it knows
  };
  static constexpr size_t kMaxManagers = 64;
  static constexpr Duration kInterval = std::chrono::seconds(1);  ///< pause between two calls of a manager
  static constexpr Duration kLease = std::chrono::milliseconds(2500);
  static constexpr Duration kGone = std::chrono::seconds(3);
  static constexpr Duration kSettle = std::chrono::seconds(3);

  /// REQUIRES: `first_epoch` is greater than all epochs of earlier lives of this metaserver.
  RepairShards(const runtime::Clock& clock, uint64_t first_epoch);

  /// The manager lives; the caller tells it its shards. Replaces one that was at the same address.
  /// kLimitExceeded: too many managers.
  Status join(ManagerId id, const std::string& address, const std::string& http_address,
              uint32_t newest_format = proto::kNewestFormat);
  void leave(ManagerId id);
  /// Gives the shards of managers that were not heard of to others. To be called every few hundred milliseconds.
  void expire();
  /// No manager of a former life can be there: shards are given out from now on.
  void settle();

  bool settled() const { return settled_; }
  ManagerId owner(StripeId stripe) const { return owners_[repair_shard(stripe)]; }
  ManagerId owner_of(uint32_t shard) const { return owners_[shard]; }
  /// Grows whenever a manager comes or shards change hands.
  uint64_t last_epoch() const { return last_epoch_; }
  std::vector<uint32_t> shards_of(ManagerId id) const;
  const Manager* find(ManagerId id) const;
  /// Ordered by id.
  const std::map<ManagerId, Manager>& managers() const { return managers_; }

 private:
  void give_out();
  void give(uint32_t shard, ManagerId to);
  ManagerId wanted_owner(uint32_t shard) const;

  const runtime::Clock& clock_;
  const TimePoint started_;
  bool settled_ = false;
  uint64_t last_epoch_;
  std::map<ManagerId, Manager> managers_;
  std::array<ManagerId, kRepairShards> owners_{};
};

}  // namespace kintsugi::metaserver

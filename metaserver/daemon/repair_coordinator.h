/// Who makes the repairs: the hosted repair manager, or those that run as daemons of their own (Mitra 2016, section
/// 4.5, "Beyond a centrally managed server").
#pragma once

#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/runtime/task_group.h"
#include "metaserver/cluster/repair_log.h"
#include "metaserver/cluster/repair_shards.h"
#include "metaserver/service/meta_state.h"
#include "metaserver/service/repair_host.h"
#include "repair_manager/manager/repair_manager.h"

namespace kintsugi::metaserver {

/// Hands what happened to whoever is responsible. While no other repair manager is there, the hosted one does it all;
/// else events go into a log that the others read (CoordinationService), and the hosted one only hears what ends
/// repairs it began before.
class RepairCoordinator final : public RepairHost {
 public:
  static constexpr Duration kLook = std::chrono::milliseconds(250);  ///< between two looks at who is gone

  /// References outlive it.
  RepairCoordinator(const runtime::Runtime& runtime, const MetaState& state,
                    repair_manager::RepairManager& hosted, Duration repair_delay);

  void start();
  asio::awaitable<void> stop();

  Duration repair_delay() const override { return repair_delay_; }
  void server_dead(ServerId server) override;
  void server_returned(ServerId server) override;
  /// It may be a new server, or one with chunks that were missing.
  void block_report_complete(ServerId server) override;
  void chunk_lost(ChunkId chunk, const std::string& why) override;
  void stripe_deleted(StripeId stripe) override;
  void move_wanted(const WantedMove& move) override;
  void moves_cancelled(ServerId from) override;

  /// A repair manager of its own lives, or leaves: see RepairShards.
  Status join(RepairShards::ManagerId id, const std::string& address, const std::string& http_address);
  void leave(RepairShards::ManagerId id);

  const RepairShards& shards() const { return shards_; }
  const RepairLog& log() const { return log_; }
  /// Numbers this process among those of the metaserver: it grows with each start.
  uint64_t life() const { return life_; }
  /// Where the repair manager of this stripe is; nullopt: it is the hosted one.
  std::optional<runtime::Endpoint> owner_address(StripeId stripe) const;

 private:
  asio::awaitable<void> watch();
  /// Looks whether the hosted manager begins or ends to be responsible.
  void follow_shards();
  /// Tells the hosted manager everything that is lost: it knows nothing of what happened while others were responsible.
  void take_over();

  const MetaState& state_;
  repair_manager::RepairManager& hosted_;
  const Duration repair_delay_;
  const uint64_t life_;
  RepairShards shards_;
  RepairLog log_;
  bool hosted_works_ = true;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::metaserver

/// Who makes the repairs: the hosted repair manager, or those that run as daemons of their own (Mitra 2016, section
/// 4.5, "Beyond a centrally managed server").
#pragma once

#include <map>
#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/runtime/task_group.h"
#include "metaserver/repair/repair_log.h"
#include "metaserver/repair/repair_shards.h"
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
  static constexpr size_t kPage =
      5000;  ///< chunks that the hosted manager is told of before others have a turn

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
  asio::awaitable<void> take_over();
  /// Tells the hosted manager of a page of what a dead server held, after a chunk. False: that was all.
  bool tell_page(ServerId server, ChunkId& after);
  /// Tells it of the rest, page by page, unless the server comes back or somebody else is responsible meanwhile.
  asio::awaitable<void> tell_rest(ServerId server, ChunkId after, uint64_t death);
  void tell_all_of(ServerId server);

  const MetaState& state_;
  repair_manager::RepairManager& hosted_;
  const Duration repair_delay_;
  const uint64_t life_;
  RepairShards shards_;
  RepairLog log_;
  bool hosted_works_ = true;
  std::map<ServerId, uint64_t>
      deaths_;  ///< of which the hosted manager is being told; counted, so that an older telling ends
  uint64_t last_death_ = 0;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::metaserver

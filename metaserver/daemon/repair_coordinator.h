/// Tells the repair managers what happened, and shares the stripes out among them (Mitra 2016, section 4.5, "Beyond a
/// centrally managed server").
#pragma once

#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/runtime/event.h"
#include "common/runtime/task_group.h"
#include "metaserver/repair/repair_log.h"
#include "metaserver/repair/repair_shards.h"
#include "metaserver/repair/stripe_health.h"
#include "metaserver/service/repair_host.h"

namespace kintsugi::metaserver {

/// The limits within which managers work.
struct RepairLimits {
  Duration delay{};
  /// Repairs in which a server helps at once, and that it receives: for all managers together, though each has at least
  /// 1.
  uint32_t max_per_server = 16;
};

/// Repair managers are processes of their own. What happens goes into a log that they read (CoordinationService).
/// While none is registered nothing is repaired, which the log of the process says once a minute as long as chunks are
/// missing; the first manager that comes asks for all that is missing.
class RepairCoordinator final : public RepairHost {
 public:
  /// Pause between two checks for managers that are gone.
  static constexpr Duration kCheckInterval = std::chrono::milliseconds(250);
  /// Pause between two warnings that no manager repairs.
  static constexpr Duration kWarnInterval = std::chrono::minutes(1);

  /// References outlive it.
  RepairCoordinator(const runtime::Runtime& runtime, const StripeHealth& health, const RepairLimits& limits);

  /// `new_cluster`: this metaserver has no former life whose managers might still work.
  void start(bool new_cluster);
  /// Ends what waits for news.
  asio::awaitable<void> stop();

  const RepairLimits& limits() const { return limits_; }
  /// From now on; repair managers hear of it within a second.
  void set_limits(const RepairLimits& limits) { limits_ = limits; }
  Duration repair_delay() const override { return limits_.delay; }
  bool anybody_repairs() const override { return !shards_.managers().empty(); }
  Status check_all_know(uint32_t format) const override;
  void list(proto::ListDaemonsResponse& into) const override;
  void server_dead(ServerId server) override;
  void server_returned(ServerId server) override;
  void maintenance_changed(ServerId server) override;
  /// It may be a new server, or one with chunks that were missing.
  void block_report_complete(ServerId server) override;
  void chunk_lost(ChunkId chunk, const std::string& why) override;
  void stripe_deleted(StripeId stripe) override;
  void move_wanted(const WantedMove& move) override;
  void moves_cancelled(ServerId from) override;

  /// A repair manager lives, or leaves: see RepairShards.
  Status join(const proto::JoinRepairRequest& request);
  void leave(RepairShards::ManagerId id);

  /// Returns true when an event was logged or shards changed hands, false at `give_up` and when this stops.
  asio::awaitable<bool> await_news(TimePoint give_up);
  /// Waits until shards are given out, for RepairShards::kSettle after a start at most.
  asio::awaitable<void> await_shards();

  const RepairShards& shards() const { return shards_; }
  const RepairLog& log() const { return log_; }
  /// Numbers this process among those of the metaserver: it grows with each start.
  uint64_t life() const { return life_; }
  /// Where the repair manager of this shard is; nullopt: it is nobody's.
  std::optional<runtime::Endpoint> owner_address(uint32_t shard) const;
  /// No repair manager is registered: what that means and what to do. Empty: there is one.
  std::string nobody_repairs() const;

 private:
  asio::awaitable<void> watch();
  void complain();
  void append(proto::RepairEvent event);
  /// Wakes those that wait if shards changed hands.
  void tell_of_shards();

  const runtime::Clock& clock_;
  const StripeHealth& health_;
  RepairLimits limits_;
  const uint64_t life_;
  RepairShards shards_;
  RepairLog log_;
  /// RepairShards::last_epoch() when waiting fetches were last woken because shards had changed.
  uint64_t notified_epoch_;
  TimePoint next_complaint_{};
  bool stopping_ = false;
  runtime::Event news_;
  runtime::TaskGroup tasks_;
};

}  // namespace kintsugi::metaserver

/// Receives what the metaserver finds out about lost chunks, dead servers and wanted moves, and passes it on to the
/// repair managers.
#pragma once

#include <string>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/token.pb.h"
#include "common/runtime/clock.h"
#include "metaserver/repair/rebalancer.h"

namespace kintsugi::metaserver {

/// Tells the repair managers what happened (RepairCoordinator); a metaserver without one tells nobody.
///
/// Functions are called on the executor and must only take note: they are called in the middle of RPC handlers.
/// Nothing is told before it is durable, except what is known in memory only (liveness, lost chunks).
class RepairHost {
 public:
  virtual ~RepairHost() = default;

  /// Returns how long a dead server is waited for before what is on it is repaired.
  virtual Duration repair_delay() const { return {}; }

  /// Returns true while a repair manager is registered: without one no chunk moves either.
  virtual bool anybody_repairs() const { return true; }

  /// kConflict names a repair manager whose program does not know this format (common/proto/formats.h).
  virtual Status check_all_know(uint32_t /*format*/) const { return {}; }

  /// Adds the repair managers that are registered.
  virtual void list(proto::ListDaemonsResponse& /*into*/) const {}

  virtual void server_dead(ServerId) {}
  virtual void server_returned(ServerId) {}
  /// Notes that the server's maintenance began, ended by order, or has another end. It may be dead already.
  virtual void maintenance_changed(ServerId) {}
  /// Notes the first complete block report since the server registered, also of a new server.
  virtual void block_report_complete(ServerId) {}
  virtual void chunk_lost(ChunkId, const std::string& /*why*/) {}
  virtual void stripe_deleted(StripeId) {}
  virtual void move_wanted(const WantedMove&) {}
  /// Notes that no move away from this server is wanted any more.
  virtual void moves_cancelled(ServerId /*from*/) {}
};

/// The host that is told: one that does nothing, until another is set.
class RepairHostSlot {
 public:
  RepairHostSlot() = default;
  RepairHostSlot(const RepairHostSlot&) = delete;
  RepairHostSlot& operator=(const RepairHostSlot&) = delete;

  /// The host outlives whatever tells it.
  void set(RepairHost& host) { host_ = &host; }
  RepairHost* operator->() const { return host_; }

 private:
  RepairHost nobody_;
  RepairHost* host_ = &nobody_;  ///< never null
};

}  // namespace kintsugi::metaserver

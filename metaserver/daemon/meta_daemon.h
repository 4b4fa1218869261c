/// The metaserver daemon: a metaserver and what ties it to its repair managers.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/secret.h"
#include "common/runtime/runtime.h"
#include "metaserver/daemon/coordination_service.h"
#include "metaserver/daemon/repair_coordinator.h"
#include "metaserver/daemon/repair_reports.h"
#include "metaserver/service/metaserver.h"

namespace kintsugi::metaserver {

struct MetaDaemonOptions {
  MetaServerOptions metaserver;
  RepairLimits repairs;
};

/// Puts the metaserver and the coordination of repair managers together, and serves the RPCs of repairs: what concerns
/// one stripe is answered by the repair manager that it belongs to, through here, so that clients know the metaserver
/// only. Without a repair manager nothing is repaired, and reads of lost chunks have no plan: clients decode them from
/// whole chunks then.
class MetaDaemon {
 public:
  static constexpr uint32_t kMaxHistory = 1000;  ///< records in one answer

  /// `runtime`'s parts and `store` outlive it. The store is the caller's to close, after stop().
  MetaDaemon(const runtime::Runtime& runtime, MetaDaemonOptions options, rpc::Secret secret,
             KeyValueStore& store);

  /// Errors: those of MetaServer::start. stop() is needed in any case.
  asio::awaitable<Status> start();
  /// Ends calls of repair managers, then the metaserver. Idempotent.
  asio::awaitable<void> stop();

  /// See RepairCoordinator::set_limits.
  void set_repair_limits(const RepairLimits& limits) { coordinator_.set_limits(limits); }

  runtime::Endpoint endpoint() const { return metaserver_.endpoint(); }
  MetaServer& metaserver() { return metaserver_; }
  const RepairCoordinator& coordinator() const { return coordinator_; }

 private:
  void register_handlers();
  asio::awaitable<Status> repair_status(Context context, const proto::Empty& request,
                                        proto::RepairStatusResponse& response);
  asio::awaitable<Status> repair_history(Context context, const proto::RepairHistoryRequest& request,
                                         proto::RepairHistoryResponse& response);
  asio::awaitable<Status> run_repair(Context context, const proto::RunRepairRequest& request,
                                     proto::RunRepairResponse& response);
  asio::awaitable<Status> plan_read(Context context, const proto::PlanReadRequest& request,
                                    proto::PlanReadResponse& response);
  asio::awaitable<Status> finish_read(Context context, const proto::FinishReadRequest& request,
                                      proto::Empty& response);

  /// Has the shard's repair manager answer. kUnavailable: nobody has it.
  template <class Request, class Response>
  asio::awaitable<Status> ask_owner(Context context, uint32_t shard, rpc::Method method,
                                    const Request& request, Response& response);

  runtime::Clock& clock_;
  rpc::Secret secret_;
  MetaServer metaserver_;
  rpc::Client client_;  ///< calls repair managers
  RepairCoordinator coordinator_;
  CoordinationService coordination_service_;
  RepairReports reports_;
  bool stopped_ = false;
};

}  // namespace kintsugi::metaserver

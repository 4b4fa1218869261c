/// The metaserver daemon: a metaserver that hosts the repair manager of its stripes.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/secret.h"
#include "common/runtime/runtime.h"
#include "metaserver/daemon/coordination_service.h"
#include "metaserver/daemon/repair_cluster_view.h"
#include "metaserver/daemon/repair_coordinator.h"
#include "metaserver/daemon/repair_reports.h"
#include "metaserver/service/metaserver.h"
#include "repair_manager/manager/repair_manager.h"

namespace kintsugi::metaserver {

struct MetaDaemonOptions {
  MetaServerOptions metaserver;
  repair_manager::Options repairs;
};

/// Puts the metaserver, the repair manager it hosts, and the coordination of others together, and serves the RPCs of
/// repairs. Reads of lost chunks are planned here in any case: they take no slots, and asking somebody else would only
/// delay them.
class MetaDaemon {
 public:
  static constexpr uint32_t kMaxHistory = 1000;  ///< records of one answer

  /// `runtime`'s parts and `store` outlive it. The store is the caller's to close, after stop().
  MetaDaemon(const runtime::Runtime& runtime, MetaDaemonOptions options, rpc::Secret secret,
             KeyValueStore& store);

  /// Errors: those of MetaServer::start. stop() is needed in any case.
  asio::awaitable<Status> start();
  /// Ends running repairs (their destinations give up when the call breaks), then the metaserver. Idempotent.
  asio::awaitable<void> stop();

  runtime::Endpoint endpoint() const { return metaserver_.endpoint(); }
  MetaServer& metaserver() { return metaserver_; }
  repair_manager::RepairManager& repairs() { return repairs_; }
  const RepairShards& shards() const { return coordinator_.shards(); }

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

  runtime::Clock& clock_;
  rpc::Secret secret_;
  MetaServer metaserver_;
  rpc::Client client_;  ///< to chunkservers and other repair managers
  RepairClusterView view_;
  repair_manager::RepairManager repairs_;
  RepairCoordinator coordinator_;
  CoordinationService coordination_service_;
  RepairReports reports_;
  bool stopped_ = false;
};

}  // namespace kintsugi::metaserver

/// The metaserver daemon: a metaserver that hosts the repair manager of its stripes.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/secret.h"
#include "common/runtime/runtime.h"
#include "metaserver/daemon/repair_cluster_view.h"
#include "metaserver/daemon/repair_coordinator.h"
#include "metaserver/service/metaserver.h"
#include "repair_manager/manager/repair_manager.h"

namespace kintsugi::metaserver {

struct MetaDaemonOptions {
  MetaServerOptions metaserver;
  repair_manager::Options repairs;
};

/// Wires the metaserver's events (deaths, returns, lost chunks) to the repair manager, or to those that run
/// as daemons of their own, and serves the RPCs of repairs. Reads of lost chunks are planned here in any
/// case: they take no slots, and asking somebody else would only delay them.
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
  void connect_events();
  void register_handlers();
  asio::awaitable<Result<proto::RepairStatusResponse>> repair_status(Context context);
  asio::awaitable<Result<proto::RepairHistoryResponse>> repair_history(Context context,
                                                                       proto::RepairHistoryRequest request);
  asio::awaitable<Result<proto::RunRepairResponse>> run_repair(Context context,
                                                               proto::RunRepairRequest request);
  asio::awaitable<Result<proto::PlanReadResponse>> plan_read(proto::PlanReadRequest request);
  asio::awaitable<Result<proto::Empty>> finish_read(proto::FinishReadRequest request);

  runtime::Clock& clock_;
  rpc::Secret secret_;
  MetaServer metaserver_;
  rpc::Client client_;  // to chunkservers
  RepairClusterView view_;
  repair_manager::RepairManager repairs_;
  RepairCoordinator coordinator_;
  bool stopped_ = false;
};

}  // namespace kintsugi::metaserver

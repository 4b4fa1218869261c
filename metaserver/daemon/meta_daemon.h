/// The metaserver daemon: a metaserver that hosts the repair manager of its stripes.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "common/proto/meta.pb.h"
#include "common/rpc/client.h"
#include "common/rpc/secret.h"
#include "common/runtime/runtime.h"
#include "metaserver/daemon/repair_cluster_view.h"
#include "metaserver/service/metaserver.h"
#include "repair_manager/repair_manager.h"

namespace kintsugi::metaserver {

struct MetaDaemonOptions {
  MetaServerOptions metaserver;
  repair_manager::Options repairs;
};

/// Wires the metaserver's events (deaths, returns, lost chunks) to the repair manager, and serves the RPCs of
/// repairs.
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

 private:
  void connect_events();
  void register_handlers();
  asio::awaitable<Result<proto::RepairStatusResponse>> repair_status();
  asio::awaitable<Result<proto::RepairHistoryResponse>> repair_history(proto::RepairHistoryRequest request);
  asio::awaitable<Result<proto::RunRepairResponse>> run_repair(Context context,
                                                               proto::RunRepairRequest request);

  MetaServer metaserver_;
  rpc::Client client_;  // to chunkservers
  RepairClusterView view_;
  repair_manager::RepairManager repairs_;
  bool stopped_ = false;
};

}  // namespace kintsugi::metaserver

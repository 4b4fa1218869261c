/// Which daemons the cluster has, for commands that have to reach all of them.
#pragma once

#include "common/proto/token.pb.h"
#include "common/rpc/server.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/service/monitor_service.h"
#include "metaserver/service/repair_host.h"

namespace kintsugi::metaserver {

class DaemonList {
 public:
  /// References outlive it.
  DaemonList(const ServerRegistry& servers, const RepairHostSlot& host, const MonitorService& monitor)
      : servers_(servers), host_(host), monitor_(monitor) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> list(Context context, const proto::Empty& request,
                               proto::ListDaemonsResponse& response);

  const ServerRegistry& servers_;
  const RepairHostSlot& host_;
  const MonitorService& monitor_;
};

}  // namespace kintsugi::metaserver

/// Which daemons the cluster has, for commands that have to reach all of them.
#pragma once

#include "common/proto/token.pb.h"
#include "common/rpc/server.h"
#include "metaserver/service/cluster_parts.h"
#include "metaserver/service/monitor_service.h"

namespace kintsugi::metaserver {

class DaemonList {
 public:
  /// References outlive it.
  DaemonList(const ClusterParts& cluster, const MonitorService& monitor)
      : cluster_(cluster), monitor_(monitor) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> list(Context context, const proto::Empty& request,
                               proto::ListDaemonsResponse& response);

  const ClusterParts& cluster_;
  const MonitorService& monitor_;
};

}  // namespace kintsugi::metaserver

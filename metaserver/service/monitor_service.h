/// The RPCs by which a monitor says where it is and whom it finds slow, and by which everybody else finds it.
#pragma once

#include "common/proto/sight.pb.h"
#include "common/rpc/server.h"
#include "metaserver/cluster/monitor_lease.h"
#include "metaserver/cluster/slow_servers.h"
#include "metaserver/service/meta_store.h"

namespace kintsugi::metaserver {

class MonitorService {
 public:
  /// References must outlive it.
  MonitorService(const MetaStore& store, SlowServers& slow)
      : store_(store), lease_(store.runtime.clock), slow_(slow) {}
  void register_on(rpc::Server& server);
  /// The monitor that lives.
  std::optional<MonitorLease::Monitor> monitor() const { return lease_.find(); }

 private:
  asio::awaitable<Status> register_monitor(Context context, const proto::RegisterMonitorRequest& request,
                                           proto::RegisterMonitorResponse& response);
  asio::awaitable<Status> find_monitor(Context context, const proto::FindMonitorRequest& request,
                                       proto::FindMonitorResponse& response);

  const MetaStore& store_;
  MonitorLease lease_;
  SlowServers& slow_;
};

}  // namespace kintsugi::metaserver

/// The RPCs by which a monitor says where it is, and by which everybody else finds it.
#pragma once

#include "common/proto/sight.pb.h"
#include "common/rpc/server.h"
#include "metaserver/cluster/monitor_lease.h"

namespace kintsugi::metaserver {

class MonitorService {
 public:
  explicit MonitorService(const runtime::Clock& clock) : lease_(clock) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> register_monitor(Context context, const proto::RegisterMonitorRequest& request,
                                           proto::RegisterMonitorResponse& response);
  asio::awaitable<Status> find_monitor(Context context, const proto::FindMonitorRequest& request,
                                       proto::FindMonitorResponse& response);

  MonitorLease lease_;
};

}  // namespace kintsugi::metaserver

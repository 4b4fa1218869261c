/// The format of the cluster (common/proto/formats.h, decision 061): read at the start, made the newest by an operator.
#pragma once

#include "common/proto/meta.pb.h"
#include "common/rpc/server.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/monitor_service.h"
#include "metaserver/service/repair_host.h"

namespace kintsugi::metaserver {

class FormatService {
 public:
  /// References outlive it.
  FormatService(MetaStore& store, const ServerRegistry& servers, const RepairHostSlot& host,
                const MonitorService& monitor)
      : store_(store), servers_(servers), host_(host), monitor_(monitor) {}
  void register_on(rpc::Server& server);

  /// Takes over the format of a cluster that exists. kNotSupported: this program does not know it.
  Status load(const proto::StoredCluster& cluster);

 private:
  asio::awaitable<Status> finalize(Context context, const proto::Empty& request,
                                   proto::FinalizeResponse& response);
  /// kConflict names a daemon whose program does not know it, or of which that is unknown.
  Status check_all_know(uint32_t format) const;

  MetaStore& store_;
  const ServerRegistry& servers_;
  const RepairHostSlot& host_;
  const MonitorService& monitor_;
};

}  // namespace kintsugi::metaserver

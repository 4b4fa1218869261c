/// The format of the cluster (common/proto/formats.h, decision 061): read at the start, made the newest by an operator.
#pragma once

#include "common/proto/meta.pb.h"
#include "common/rpc/server.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/monitor_service.h"

namespace kintsugi::metaserver {

class FormatService {
 public:
  /// References outlive it.
  FormatService(MetaStore& store, const ClusterParts& cluster, const MonitorService& monitor)
      : store_(store), cluster_(cluster), monitor_(monitor) {}
  void register_on(rpc::Server& server);

  /// Takes over the format of a cluster that exists. kNotSupported: this program does not know it.
  Status load(const proto::StoredCluster& cluster);

 private:
  asio::awaitable<Status> finalize(Context context, const proto::Empty& request,
                                   proto::FinalizeResponse& response);
  /// kConflict names a daemon whose program does not know it, or of which that is unknown.
  Status check_all_know(uint32_t format) const;

  MetaStore& store_;
  const ClusterParts& cluster_;
  const MonitorService& monitor_;
};

}  // namespace kintsugi::metaserver

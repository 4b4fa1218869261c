/// The RPCs with which servers leave the cluster, for ever or for a while: drain, undrain, remove, maintain.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/chunks/cache_map.h"
#include "metaserver/chunks/quarantine.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/repair_host.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References outlive it.
class DrainService {
 public:
  DrainService(MetaStore& store, ServerRegistry& servers, CacheMap& caches, Quarantine& quarantine,
               RepairHostSlot& host)
      : store_(store), servers_(servers), caches_(caches), quarantine_(quarantine), host_(host) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> drain_server(Context context, const proto::DrainServerRequest& request,
                                       proto::Empty& response);
  /// kInvalidArgument: for longer than kMaxMaintenance.
  asio::awaitable<Status> maintain_server(Context context, const proto::MaintainServerRequest& request,
                                          proto::Empty& response);
  asio::awaitable<Status> remove_server(Context context, const proto::RemoveServerRequest& request,
                                        proto::Empty& response);
  Status check_removable(ServerId server) const;
  asio::awaitable<Status> forget_garbage(Context context, ServerId server);

  MetaStore& store_;
  ServerRegistry& servers_;
  CacheMap& caches_;
  Quarantine& quarantine_;
  RepairHostSlot& host_;
};

}  // namespace kintsugi::metaserver

/// The RPCs with which servers leave the cluster: drain, undrain, remove.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/core.h"

namespace kintsugi::metaserver {

/// One function for each RPC. `core` must outlive it.
class DrainService {
 public:
  explicit DrainService(Core& core) : core_(core) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Result<proto::Empty>> drain_server(Context context, proto::DrainServerRequest request);
  asio::awaitable<Result<proto::Empty>> remove_server(Context context, proto::RemoveServerRequest request);
  Status check_removable(ServerId server) const;
  asio::awaitable<Status> forget_garbage(Context context, ServerId server);

  Core& core_;
};

}  // namespace kintsugi::metaserver

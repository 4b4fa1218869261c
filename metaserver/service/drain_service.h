/// The RPCs with which servers leave the cluster: drain, undrain, remove.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/meta_state.h"

namespace kintsugi::metaserver {

/// One function for each RPC. `state` must outlive it.
class DrainService {
 public:
  explicit DrainService(MetaState& state) : state_(state) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> drain_server(Context context, const proto::DrainServerRequest& request,
                                       proto::Empty& response);
  asio::awaitable<Status> remove_server(Context context, const proto::RemoveServerRequest& request,
                                        proto::Empty& response);
  Status check_removable(ServerId server) const;
  asio::awaitable<Status> forget_garbage(Context context, ServerId server);

  MetaState& state_;
};

}  // namespace kintsugi::metaserver

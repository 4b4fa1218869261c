/// The RPCs about the trash of directories.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/meta_state.h"

namespace kintsugi::metaserver {

/// One function for each RPC. `state` must outlive it.
class TrashService {
 public:
  explicit TrashService(MetaState& state) : state_(state) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> set(Context context, const proto::SetTrashRequest& request, proto::Empty& response);
  asio::awaitable<Status> list(Context context, const proto::ListTrashRequest& request,
                               proto::ListTrashResponse& response);
  asio::awaitable<Status> restore(Context context, const proto::RestoreTrashRequest& request,
                                  proto::RestoreTrashResponse& response);
  asio::awaitable<Status> empty(Context context, const proto::EmptyTrashRequest& request,
                                proto::Empty& response);

  MetaState& state_;
};

}  // namespace kintsugi::metaserver

/// The RPCs about snapshots of directories.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/meta_state.h"

namespace kintsugi::metaserver {

/// One function for each RPC. `state` must outlive it.
class SnapshotService {
 public:
  explicit SnapshotService(MetaState& state) : state_(state) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> create(Context context, const proto::CreateSnapshotRequest& request,
                                 proto::Empty& response);
  asio::awaitable<Status> remove(Context context, const proto::DeleteSnapshotRequest& request,
                                 proto::Empty& response);
  asio::awaitable<Status> list(Context context, const proto::ListSnapshotsRequest& request,
                               proto::ListSnapshotsResponse& response);

  MetaState& state_;
};

}  // namespace kintsugi::metaserver

/// The RPCs about snapshots of directories.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References outlive it.
class SnapshotService {
 public:
  SnapshotService(MetaStore& store, NamespaceParts& names) : store_(store), names_(names) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> create(Context context, const proto::CreateSnapshotRequest& request,
                                 proto::Empty& response);
  asio::awaitable<Status> remove(Context context, const proto::DeleteSnapshotRequest& request,
                                 proto::Empty& response);
  asio::awaitable<Status> list(Context context, const proto::ListSnapshotsRequest& request,
                               proto::ListSnapshotsResponse& response);

  MetaStore& store_;
  NamespaceParts& names_;
};

}  // namespace kintsugi::metaserver

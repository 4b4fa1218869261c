/// The RPCs about the trash of directories.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References outlive it.
class TrashService {
 public:
  TrashService(MetaStore& store, NamespaceParts& names, Clients& clients)
      : store_(store), names_(names), clients_(clients) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> set(Context context, const proto::SetTrashRequest& request, proto::Empty& response);
  asio::awaitable<Status> list(Context context, const proto::ListTrashRequest& request,
                               proto::ListTrashResponse& response);
  asio::awaitable<Status> restore(Context context, const proto::RestoreTrashRequest& request,
                                  proto::RestoreTrashResponse& response);
  asio::awaitable<Status> empty(Context context, const proto::EmptyTrashRequest& request,
                                proto::Empty& response);

  MetaStore& store_;
  NamespaceParts& names_;
  Clients& clients_;
};

}  // namespace kintsugi::metaserver

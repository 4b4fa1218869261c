/// The RPCs for extended attributes, by inode (common/proto/inode.proto).
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References outlive it.
class XattrService {
 public:
  XattrService(MetaStore& store, NamespaceParts& names, Clients& clients)
      : store_(store), names_(names), clients_(clients) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> get_xattr(Context context, const proto::GetXattrRequest& request,
                                    proto::GetXattrResponse& response);
  asio::awaitable<Status> set_xattr(Context context, const proto::SetXattrRequest& request,
                                    proto::Empty& response);
  asio::awaitable<Status> list_xattrs(Context context, const proto::ListXattrsRequest& request,
                                      proto::ListXattrsResponse& response);

  MetaStore& store_;
  NamespaceParts& names_;
  Clients& clients_;
};

}  // namespace kintsugi::metaserver

/// The RPCs about quotas of directories.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References outlive it.
class QuotaService {
 public:
  QuotaService(MetaStore& store, NamespaceParts& names) : store_(store), names_(names) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> set(Context context, const proto::SetQuotaRequest& request, proto::Empty& response);
  asio::awaitable<Status> get(Context context, const proto::GetQuotasRequest& request,
                              proto::GetQuotasResponse& response);
  asio::awaitable<Status> list(Context context, const proto::ListQuotasRequest& request,
                               proto::ListQuotasResponse& response);

  MetaStore& store_;
  NamespaceParts& names_;
};

}  // namespace kintsugi::metaserver

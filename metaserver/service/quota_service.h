/// The RPCs about quotas of directories.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/meta_state.h"

namespace kintsugi::metaserver {

/// One function for each RPC. `state` must outlive it.
class QuotaService {
 public:
  explicit QuotaService(MetaState& state) : state_(state) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Status> set(Context context, const proto::SetQuotaRequest& request, proto::Empty& response);
  asio::awaitable<Status> get(Context context, const proto::GetQuotasRequest& request,
                              proto::GetQuotasResponse& response);
  asio::awaitable<Status> list(Context context, const proto::ListQuotasRequest& request,
                               proto::ListQuotasResponse& response);

  MetaState& state_;
};

}  // namespace kintsugi::metaserver

/// The RPCs on names: directories, attributes, policies.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/service/core.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {

/// One function for each RPC. `core` must outlive it.
class NamespaceService {
 public:
  explicit NamespaceService(Core& core) : core_(core) {}
  void register_on(rpc::Server& server);

 private:
  asio::awaitable<Result<proto::StatResponse>> stat(Context context, proto::StatRequest request);
  asio::awaitable<Result<proto::ListResponse>> list(Context context, proto::ListRequest request);
  asio::awaitable<Result<proto::Empty>> make_directory(Context context, proto::MakeDirectoryRequest request);
  asio::awaitable<Result<proto::Empty>> remove(Context context, proto::RemoveRequest request);
  asio::awaitable<Result<proto::Empty>> rename(Context context, proto::RenameRequest request);
  asio::awaitable<Result<proto::Empty>> set_policy(Context context, proto::SetPolicyRequest request);
  asio::awaitable<Result<proto::GetPolicyResponse>> get_policy(Context context,
                                                               proto::GetPolicyRequest request);
  asio::awaitable<Result<proto::ListPoliciesResponse>> list_policies(Context context, proto::Empty request);
  asio::awaitable<Result<proto::DiskUsageResponse>> disk_usage(Context context,
                                                               proto::DiskUsageRequest request);
  asio::awaitable<Result<proto::DiskFreeResponse>> disk_free(Context context, proto::Empty request);

  Core& core_;
};

/// Answers a read: its value, or its error, once durable.
template <class Response>
asio::awaitable<Result<Response>> answer(Core& core, sight::Module& module, Result<Response> result) {
  const Status status = co_await core.finish_read(result);
  if (!module.finish(status).ok()) co_return status;
  co_return std::move(result);
}

}  // namespace kintsugi::metaserver

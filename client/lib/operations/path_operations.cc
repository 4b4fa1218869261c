#include "client/lib/operations/path_operations.h"

namespace kintsugi::client {

using rpc::Method;

asio::awaitable<Result<proto::Attributes>> PathOperations::stat(std::string path) {
  KINTSUGI_CO_ASSIGN(proto::StatResponse answer,
                     co_await cluster_.ask<proto::StatResponse>(
                         Method::kStat, cluster_.request_for<proto::StatRequest>(std::move(path))));
  co_return std::move(*answer.mutable_attributes());
}

asio::awaitable<Result<proto::ListResponse>> PathOperations::list(std::string path, std::string after,
                                                                  uint32_t limit) {
  auto request = cluster_.request_for<proto::ListRequest>(std::move(path));
  request->set_after(std::move(after));
  request->set_limit(limit);
  return cluster_.ask<proto::ListResponse>(Method::kList, std::move(request));
}

asio::awaitable<Status> PathOperations::make_directory(std::string path, bool parents, uint32_t mode) {
  auto request = cluster_.request_for<proto::MakeDirectoryRequest>(std::move(path));
  request->set_parents(parents);
  request->set_mode(mode);
  return cluster_.tell(Method::kMakeDirectory, std::move(request));
}

asio::awaitable<Status> PathOperations::remove(std::string path, bool recursive) {
  auto request = cluster_.request_for<proto::RemoveRequest>(std::move(path));
  request->set_recursive(recursive);
  return cluster_.tell(Method::kRemove, std::move(request), Repeat::kAllowed, MetaLink::kLongCallLimit);
}

asio::awaitable<Status> PathOperations::rename(std::string from, std::string to, bool replace) {
  auto request = std::make_unique<proto::RenameRequest>();
  request->set_from(std::move(from));
  request->set_to(std::move(to));
  request->set_replace(replace);
  cluster_.sign(*request);
  return cluster_.tell(Method::kRename, std::move(request));
}

asio::awaitable<Result<proto::OpenReadResponse>> PathOperations::extents(std::string path) {
  proto::OpenReadResponse whole, page;
  proto::OpenReadRequest request;
  request.set_path(std::move(path));
  cluster_.sign(request);
  while (true) {
    KINTSUGI_CO_TRY(
        co_await cluster_.resources().meta.call(cluster_.context(), Method::kOpenRead, request, page));
    *whole.mutable_attributes() = page.attributes();
    whole.mutable_extents()->MergeFrom(page.extents());
    whole.mutable_stripes()->MergeFrom(page.stripes());
    if (!page.more() || page.extents().empty()) co_return whole;
    const proto::Extent& last = page.extents(page.extents_size() - 1);
    request.set_offset(last.file_offset() + last.length());
  }
}

asio::awaitable<Result<proto::ListPoliciesResponse>> PathOperations::list_policies() {
  return cluster_.ask<proto::ListPoliciesResponse>(Method::kListPolicies, std::make_unique<proto::Empty>());
}

asio::awaitable<Result<proto::GetPolicyResponse>> PathOperations::get_policy(std::string path) {
  return cluster_.ask<proto::GetPolicyResponse>(
      Method::kGetPolicy, cluster_.request_for<proto::GetPolicyRequest>(std::move(path)));
}

asio::awaitable<Status> PathOperations::set_policy(std::string path, std::string policy) {
  auto request = cluster_.request_for<proto::SetPolicyRequest>(std::move(path));
  request->set_policy(std::move(policy));
  return cluster_.tell(Method::kSetPolicy, std::move(request));
}

asio::awaitable<Result<proto::DiskUsageResponse>> PathOperations::disk_usage(std::string path) {
  return cluster_.ask<proto::DiskUsageResponse>(
      Method::kDiskUsage, cluster_.request_for<proto::DiskUsageRequest>(std::move(path)), Repeat::kAllowed,
      MetaLink::kLongCallLimit);
}

asio::awaitable<Result<proto::DiskFreeResponse>> PathOperations::disk_free(std::optional<Context> within) {
  return cluster_.ask<proto::DiskFreeResponse>(Method::kDiskFree, std::make_unique<proto::Empty>(),
                                               Repeat::kAllowed, MetaLink::kCallLimit, within);
}

}  // namespace kintsugi::client

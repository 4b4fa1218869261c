#include "client/lib/operations/directory_rules.h"

namespace kintsugi::client {

using rpc::Method;

asio::awaitable<Status> DirectoryRules::set_quota(std::string path, std::optional<uint64_t> max_bytes,
                                                  std::optional<uint64_t> max_files) {
  auto request = cluster_.request_for<proto::SetQuotaRequest>(std::move(path));
  if (max_bytes) request->set_max_bytes(*max_bytes);
  if (max_files) request->set_max_files(*max_files);
  const bool removes = !max_bytes && !max_files;
  return cluster_.tell(Method::kSetQuota, std::move(request), removes ? Repeat::kNever : Repeat::kAllowed);
}

asio::awaitable<Result<proto::GetQuotasResponse>> DirectoryRules::quotas_at(std::string path) {
  return cluster_.ask<proto::GetQuotasResponse>(
      Method::kGetQuotas, cluster_.request_for<proto::GetQuotasRequest>(std::move(path)));
}

asio::awaitable<Result<proto::GetQuotasResponse>> DirectoryRules::quotas_of(uint64_t inode,
                                                                            std::optional<Context> within) {
  auto request = std::make_unique<proto::GetQuotasRequest>();
  request->set_inode(inode);
  return cluster_.ask<proto::GetQuotasResponse>(Method::kGetQuotas, std::move(request), Repeat::kAllowed,
                                                MetaLink::kCallLimit, within);
}

asio::awaitable<Result<proto::ListQuotasResponse>> DirectoryRules::list_quotas(uint64_t after) {
  auto request = std::make_unique<proto::ListQuotasRequest>();
  request->set_after(after);
  return cluster_.ask<proto::ListQuotasResponse>(Method::kListQuotas, std::move(request));
}

asio::awaitable<Status> DirectoryRules::create_snapshot(std::string path, std::string name) {
  auto request = cluster_.request_for<proto::CreateSnapshotRequest>(std::move(path));
  request->set_name(std::move(name));
  return cluster_.tell(Method::kCreateSnapshot, std::move(request));
}

asio::awaitable<Status> DirectoryRules::delete_snapshot(std::string path, std::string name) {
  auto request = cluster_.request_for<proto::DeleteSnapshotRequest>(std::move(path));
  request->set_name(std::move(name));
  return cluster_.tell(Method::kDeleteSnapshot, std::move(request));
}

asio::awaitable<Result<proto::ListSnapshotsResponse>> DirectoryRules::list_snapshots(std::string path) {
  return cluster_.ask<proto::ListSnapshotsResponse>(
      Method::kListSnapshots, cluster_.request_for<proto::ListSnapshotsRequest>(std::move(path)));
}

asio::awaitable<Status> DirectoryRules::set_trash(std::string path, Duration retention) {
  auto request = cluster_.request_for<proto::SetTrashRequest>(std::move(path));
  request->set_retention_ns(retention.count());
  return cluster_.tell(Method::kSetTrash, std::move(request));
}

asio::awaitable<Result<proto::ListTrashResponse>> DirectoryRules::list_trash(std::string path,
                                                                             std::string after) {
  auto request = cluster_.request_for<proto::ListTrashRequest>(std::move(path));
  request->set_after(std::move(after));
  return cluster_.ask<proto::ListTrashResponse>(Method::kListTrash, std::move(request));
}

asio::awaitable<Result<proto::RestoreTrashResponse>> DirectoryRules::restore_trash(std::string path,
                                                                                   std::string entry,
                                                                                   std::string to) {
  auto request = cluster_.request_for<proto::RestoreTrashRequest>(std::move(path));
  request->set_entry(std::move(entry));
  request->set_to(std::move(to));
  return cluster_.ask<proto::RestoreTrashResponse>(Method::kRestoreTrash, std::move(request));
}

asio::awaitable<Status> DirectoryRules::empty_trash(std::string path, std::string entry) {
  auto request = cluster_.request_for<proto::EmptyTrashRequest>(std::move(path));
  request->set_entry(std::move(entry));
  if (request->entry().empty())
    co_return co_await cluster_.tell(Method::kEmptyTrash, std::move(request), Repeat::kAllowed,
                                     MetaLink::kLongCallLimit);
  // An entry that is gone by the first call would be an error of the second one.
  Status emptied = co_await cluster_.tell(Method::kEmptyTrash, std::move(request), Repeat::kNever,
                                          MetaLink::kLongCallLimit);
  if (emptied.code() != Code::kUnavailable) co_return emptied;
  co_return Status{Code::kUnavailable, emptied.message() + ": the entry may have been removed all the same"};
}

}  // namespace kintsugi::client

#include "metaserver/service/namespace_service.h"

#include <boost/asio/post.hpp>

#include "erasure/policy.h"
#include "metaserver/namespace/tree_walk.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kStat{"metaserver.stat"};
constexpr sight::Site kList{"metaserver.list", {}, {"entries"}};
constexpr sight::Site kMakeDirectory{"metaserver.make_directory"};
constexpr sight::Site kRemove{"metaserver.remove", {"recursive"}};
constexpr sight::Site kRename{"metaserver.rename"};
constexpr sight::Site kSetPolicy{"metaserver.set_policy"};
constexpr sight::Site kGetPolicy{"metaserver.get_policy"};
constexpr sight::Site kListPolicies{"metaserver.list_policies"};
constexpr sight::Site kDiskUsage{"metaserver.disk_usage", {}, {"inodes"}};
constexpr sight::Site kDiskFree{"metaserver.disk_free"};

constexpr size_t kInodesBetweenYields = 500;

/// "" stays, anything else becomes the policy's one name.
Result<std::string> normalise_policy(const std::string& name) {
  if (name.empty()) return name;
  KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(name));
  return policy.name();
}

}  // namespace

void NamespaceService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<proto::StatRequest, proto::StatResponse>(
      Method::kStat, [this](Context context, proto::StatRequest r) { return stat(context, std::move(r)); });
  server.handle<proto::ListRequest, proto::ListResponse>(
      Method::kList, [this](Context context, proto::ListRequest r) { return list(context, std::move(r)); });
  server.handle<proto::MakeDirectoryRequest, proto::Empty>(
      Method::kMakeDirectory, [this](Context context, proto::MakeDirectoryRequest r) {
        return make_directory(context, std::move(r));
      });
  server.handle<proto::RemoveRequest, proto::Empty>(
      Method::kRemove,
      [this](Context context, proto::RemoveRequest r) { return remove(context, std::move(r)); });
  server.handle<proto::RenameRequest, proto::Empty>(
      Method::kRename,
      [this](Context context, proto::RenameRequest r) { return rename(context, std::move(r)); });
  server.handle<proto::SetPolicyRequest, proto::Empty>(
      Method::kSetPolicy,
      [this](Context context, proto::SetPolicyRequest r) { return set_policy(context, std::move(r)); });
  server.handle<proto::GetPolicyRequest, proto::GetPolicyResponse>(
      Method::kGetPolicy,
      [this](Context context, proto::GetPolicyRequest r) { return get_policy(context, std::move(r)); });
  server.handle<proto::Empty, proto::ListPoliciesResponse>(
      Method::kListPolicies,
      [this](Context context, proto::Empty r) { return list_policies(context, std::move(r)); });
  server.handle<proto::DiskUsageRequest, proto::DiskUsageResponse>(
      Method::kDiskUsage,
      [this](Context context, proto::DiskUsageRequest r) { return disk_usage(context, std::move(r)); });
  server.handle<proto::Empty, proto::DiskFreeResponse>(
      Method::kDiskFree,
      [this](Context context, proto::Empty r) { return disk_free(context, std::move(r)); });
}

asio::awaitable<Result<proto::StatResponse>> NamespaceService::stat(Context context,
                                                                    proto::StatRequest request) {
  sight::Module module{context, kStat};
  Result<proto::Attributes> attributes = core_.names.stat(core_.store, request.path());
  const Status status = co_await core_.finish_read(attributes);
  if (!module.finish(status).ok()) co_return status;
  proto::StatResponse response;
  *response.mutable_attributes() = std::move(*attributes);
  co_return response;
}

asio::awaitable<Result<proto::ListResponse>> NamespaceService::list(Context context,
                                                                    proto::ListRequest request) {
  sight::Module module{context, kList};
  auto response = core_.names.list(core_.store, request.path(), request.after(), request.limit());
  if (response) module.output(0, response->entries_size());
  co_return co_await answer(core_, module, std::move(response));
}

asio::awaitable<Result<proto::Empty>> NamespaceService::make_directory(Context context,
                                                                       proto::MakeDirectoryRequest request) {
  sight::Module module{context, kMakeDirectory};
  Transaction transaction(core_.store);
  const Status made =
      core_.names.make_directory(transaction, request.path(), request.parents(), request.mode());
  KINTSUGI_CO_TRY(module.finish(co_await core_.finish(module.context(), made, transaction)));
  co_return proto::Empty{};
}

asio::awaitable<Result<proto::Empty>> NamespaceService::remove(Context context,
                                                               proto::RemoveRequest request) {
  sight::Module module{context, kRemove, {double(request.recursive())}};
  Transaction transaction(core_.store);
  FreedStripes freed;
  const Status removed = core_.names.remove(transaction, request.path(), request.recursive(), freed);
  KINTSUGI_CO_TRY(
      module.finish(co_await core_.finish(module.context(), removed, transaction, std::move(freed))));
  co_return proto::Empty{};
}

asio::awaitable<Result<proto::Empty>> NamespaceService::rename(Context context,
                                                               proto::RenameRequest request) {
  sight::Module module{context, kRename};
  Transaction transaction(core_.store);
  FreedStripes freed;
  const Status renamed =
      core_.names.rename(transaction, request.from(), request.to(), request.replace(), freed);
  KINTSUGI_CO_TRY(
      module.finish(co_await core_.finish(module.context(), renamed, transaction, std::move(freed))));
  co_return proto::Empty{};
}

asio::awaitable<Result<proto::Empty>> NamespaceService::set_policy(Context context,
                                                                   proto::SetPolicyRequest request) {
  sight::Module module{context, kSetPolicy};
  Transaction transaction(core_.store);
  Result<std::string> policy = normalise_policy(request.policy());
  const Status set = policy ? core_.names.set_policy(transaction, request.path(), *policy) : policy.error();
  KINTSUGI_CO_TRY(module.finish(co_await core_.finish(module.context(), set, transaction)));
  co_return proto::Empty{};
}

asio::awaitable<Result<proto::GetPolicyResponse>> NamespaceService::get_policy(
    Context context, proto::GetPolicyRequest request) {
  sight::Module module{context, kGetPolicy};
  auto response = core_.names.policy_of(core_.store, request.path());
  co_return co_await answer(core_, module, std::move(response));
}

asio::awaitable<Result<proto::ListPoliciesResponse>> NamespaceService::list_policies(Context context,
                                                                                     proto::Empty) {
  sight::Module module{context, kListPolicies};
  proto::ListPoliciesResponse response;
  response.set_default_policy(core_.names.default_policy(core_.store));
  core_.store.scan(keys::all(keys::Kind::kPolicy).begin, keys::all(keys::Kind::kPolicy).end,
                   [&](std::string_view key, std::string_view) {
                     response.add_policies(std::string(keys::text_of(key)));
                     return true;
                   });
  Result<proto::ListPoliciesResponse> result(std::move(response));
  co_return co_await answer(core_, module, std::move(result));
}

asio::awaitable<Result<proto::DiskUsageResponse>> NamespaceService::disk_usage(
    Context context, proto::DiskUsageRequest request) {
  sight::Module module{context, kDiskUsage};
  Result<TreeWalk> tree = TreeWalk::start(core_.store, request.path());
  proto::DiskUsageResponse response;
  size_t inodes = 0;
  while (tree) {
    const std::optional<TreeWalk::Item> item = tree->next(core_.store);
    if (!item) break;
    if (is_directory(item->inode)) {
      response.set_directories(response.directories() + 1);
    } else {
      response.set_files(response.files() + 1);
      response.set_bytes(response.bytes() + item->inode.size());
      response.set_stored_bytes(response.stored_bytes() + item->inode.stored_bytes());
    }
    if (++inodes % kInodesBetweenYields != 0) continue;
    if (core_.runtime.clock.now() > context.deadline) {
      co_return module.finish({Code::kDeadlineExceeded, "counting " + request.path() + " took too long"});
    }
    co_await asio::post(core_.runtime.executor, asio::use_awaitable);
  }
  module.output(0, double(inodes));
  Result<proto::DiskUsageResponse> result(std::move(response));
  if (!tree) result = tree.error();
  co_return co_await answer(core_, module, std::move(result));
}

asio::awaitable<Result<proto::DiskFreeResponse>> NamespaceService::disk_free(Context context, proto::Empty) {
  sight::Module module{context, kDiskFree};
  proto::DiskFreeResponse response;
  for (const auto& [id, server] : core_.servers.servers()) {
    response.set_servers(response.servers() + 1);
    if (server.liveness == proto::ServerState::DEAD) continue;
    if (server.liveness == proto::ServerState::ALIVE)
      response.set_servers_alive(response.servers_alive() + 1);
    response.set_total_bytes(response.total_bytes() + server.load.total_bytes());
    response.set_free_bytes(response.free_bytes() + server.load.free_bytes());
    response.set_stored_bytes(response.stored_bytes() + server.load.stored_bytes());
  }
  const Reader reader(core_.store);
  const auto totals = reader.get_message<proto::StoredTotals>(keys::totals()).value_or(proto::StoredTotals{});
  response.set_files(totals.files());
  response.set_stripes(totals.stripes());
  Result<proto::DiskFreeResponse> result(std::move(response));
  co_return co_await answer(core_, module, std::move(result));
}

}  // namespace kintsugi::metaserver

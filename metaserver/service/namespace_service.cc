#include "metaserver/service/namespace_service.h"

#include <boost/asio/post.hpp>

#include "erasure/policy.h"
#include "metaserver/namespace/requests.h"
#include "metaserver/namespace/tree_walk.h"
#include "metaserver/service/servers_room.h"
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

Status about(const std::string& path, const Status& status) {
  return status.ok() ? status : Status{status.code(), path + " " + status.message()};
}

}  // namespace

void NamespaceService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&NamespaceService::stat>(Method::kStat, *this);
  server.handle<&NamespaceService::list>(Method::kList, *this);
  server.handle<&NamespaceService::make_directory>(Method::kMakeDirectory, *this);
  server.handle<&NamespaceService::remove>(Method::kRemove, *this);
  server.handle<&NamespaceService::rename>(Method::kRename, *this);
  server.handle<&NamespaceService::set_policy>(Method::kSetPolicy, *this);
  server.handle<&NamespaceService::get_policy>(Method::kGetPolicy, *this);
  server.handle<&NamespaceService::list_policies>(Method::kListPolicies, *this);
  server.handle<&NamespaceService::disk_usage>(Method::kDiskUsage, *this);
  server.handle<&NamespaceService::disk_free>(Method::kDiskFree, *this);
}

asio::awaitable<Status> NamespaceService::stat(Context context, const proto::StatRequest& request,
                                               proto::StatResponse& response) {
  sight::Module module{context, kStat};
  // What clients with open files keep back of it is written out first.
  const auto unsettled = [&](Unsettled& all) { all.path(request.path(), 0); };
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.until_none(module.context(), unsettled)));
  const Result<Place> place = names_.places.at(request.path());
  Status found = names_.places.check_parent(Caller::from(request.caller()), request.path(), kMayExecute);
  if (found.ok())
    found = place ? extract(names_.places.attributes(*place), *response.mutable_attributes()) : place.error();
  co_return module.finish(co_await store_.finish_read(module.context(), found));
}

Status NamespaceService::list_path(const proto::ListRequest& request, proto::ListResponse& response) const {
  const Caller caller = Caller::from(request.caller());
  KINTSUGI_TRY(names_.places.check_parent(caller, request.path(), kMayExecute));
  KINTSUGI_ASSIGN(const Place place, names_.places.at(request.path()));
  const auto found = Reader(place.view()).get_message<proto::StoredInode>(keys::inode(place.id()));
  if (found && is_directory(*found))
    KINTSUGI_TRY(names_.places.check_access(caller, request.path(), kMayRead | kMayExecute));
  if (place.slot() == 0 && !place.lists_snapshots())
    return extract(names_.tree.list(Transaction(store_.kv), request.path(), request.after(), request.limit()),
                   response);
  KINTSUGI_ASSIGN(*response.mutable_self(), names_.places.attributes(place));
  if (response.self().type() != proto::Attributes::DIRECTORY) return {};
  return extract(names_.places.list(place, request.after(), request.limit(), false), response);
}

asio::awaitable<Status> NamespaceService::list(Context context, const proto::ListRequest& request,
                                               proto::ListResponse& response) {
  sight::Module module{context, kList};
  Status listed;
  const auto unsettled = [&](Unsettled& all) {
    all.directories_of(request.path());
    if (!all.empty()) return;
    response.Clear();
    listed = list_path(request, response);
    if (listed.ok()) all.entries(response, 0);
  };
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.until_none(module.context(), unsettled)));
  module.output(0, response.entries_size());
  co_return module.finish(co_await store_.finish_read(module.context(), listed));
}

asio::awaitable<Status> NamespaceService::make_directory(Context context,
                                                         const proto::MakeDirectoryRequest& request, Empty&) {
  sight::Module module{context, kMakeDirectory};
  if (request_carried_out(store_.kv, request.change()))
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.directories_of(module.context(), request.path())));
  Transaction transaction(store_.kv);
  const Caller caller = Caller::from(request.caller());
  Status made = store_.room.check();
  if (made.ok()) made = names_.places.check_writable(request.path());
  if (made.ok()) made = names_.places.check_parent(caller, request.path(), kMayExecute);
  if (made.ok())
    made = names_.tree.make_directory(transaction, request.path(), request.parents(), request.mode(), caller);
  if (made.ok()) made = about(request.path(), names_.quotas.account(transaction));
  if (made.ok()) note_request(transaction, request.change());
  co_return module.finish(co_await store_.finish(module.context(), made, transaction));
}

asio::awaitable<Status> NamespaceService::check_tree(const proto::RemoveRequest& request) {
  const Caller caller = Caller::from(request.caller());
  auto tree = TreeWalk::start(store_.kv, request.path());
  if (!tree) co_return Status{};  // whoever removes it says why
  size_t inodes = 0;
  while (const std::optional<TreeWalk::Item> item = tree->next(store_.kv)) {
    if (is_directory(item->inode)) {
      const Transaction transaction(store_.kv);
      const bool others = (item->inode.mode() & kSticky) != 0 && item->inode.uid() != caller.uid;
      const Status may =
          check_access(transaction, caller, item->id, item->inode, kMayRead | kMayWrite | kMayExecute);
      if (others || !may.ok())
        co_return Status{Code::kAccessDenied,
                         fmt::format("{} may not be emptied by this user: nothing is removed", item->path)};
    }
    if (++inodes % kInodesBetweenYields == 0)
      co_await asio::post(store_.runtime.executor, asio::use_awaitable);
  }
  co_return Status{};
}

asio::awaitable<Status> NamespaceService::settle_and_check(Context context,
                                                           const proto::RemoveRequest& request) {
  KINTSUGI_CO_TRY(co_await names_.settling.directories_of(context, request.path()));
  if (!request.recursive() || Caller::from(request.caller()).is_root()) co_return Status{};
  // Who may not remove it takes no lease away.
  KINTSUGI_CO_TRY(co_await check_tree(request));
  // Others may keep back directories that this user may not empty: what is kept back has to come first, and nothing
  // more is meanwhile.
  const Leases::Pause pause(clients_.leases);
  KINTSUGI_CO_TRY(co_await names_.settling.below(context, request.path()));
  co_return co_await check_tree(request);
}

asio::awaitable<Status> NamespaceService::remove(Context context, const proto::RemoveRequest& request,
                                                 Empty&) {
  sight::Module module{context, kRemove, {double(request.recursive())}};
  if (request_carried_out(store_.kv, request.change()))
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  KINTSUGI_CO_TRY(module.finish(co_await settle_and_check(module.context(), request)));
  const Caller caller = Caller::from(request.caller());
  Transaction transaction(store_.kv);
  FreedStripes freed;
  Status removed = names_.places.check_writable(request.path());
  if (removed.ok()) removed = names_.places.check_parent(caller, request.path(), kMayExecute);
  if (removed.ok())
    removed = names_.tree.remove(transaction, request.path(), request.recursive(), freed, caller);
  if (removed.ok()) note_request(transaction, request.change());
  if (removed.ok()) (void)names_.quotas.account(transaction, false);  // what shrinks is never refused
  co_return module.finish(co_await store_.finish(module.context(), removed, transaction, std::move(freed)));
}

asio::awaitable<Status> NamespaceService::rename(Context context, const proto::RenameRequest& request,
                                                 Empty&) {
  sight::Module module{context, kRename};
  if (request_carried_out(store_.kv, request.change()))
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  const auto unsettled = [&](Unsettled& all) {
    all.directories_of(request.from());
    all.directories_of(request.to());
    all.into_quota(request.from(), request.to());
  };
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.until_none(module.context(), unsettled)));
  Transaction transaction(store_.kv);
  FreedStripes freed;
  const Caller caller = Caller::from(request.caller());
  Status renamed = names_.places.check_writable(request.from());
  if (renamed.ok()) renamed = names_.places.check_writable(request.to());
  if (renamed.ok()) renamed = names_.places.check_parent(caller, request.from(), kMayExecute);
  if (renamed.ok()) renamed = names_.places.check_parent(caller, request.to(), kMayExecute);
  if (renamed.ok())
    renamed = names_.tree.rename(transaction, request.from(), request.to(), request.replace(), freed, caller);
  if (renamed.ok()) renamed = about(request.to(), names_.quotas.account(transaction));
  if (renamed.ok()) note_request(transaction, request.change());
  co_return module.finish(co_await store_.finish(module.context(), renamed, transaction, std::move(freed)));
}

asio::awaitable<Status> NamespaceService::set_policy(Context context, const proto::SetPolicyRequest& request,
                                                     Empty&) {
  sight::Module module{context, kSetPolicy};
  if (request_carried_out(store_.kv, request.change()))
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  KINTSUGI_CO_TRY(module.finish(names_.places.check_owner(Caller::from(request.caller()), request.path())));
  // Who makes files under the lease of a directory was told of its policy.
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.below(module.context(), request.path())));
  Transaction transaction(store_.kv);
  std::string policy;
  Status set = extract(normalise_policy(request.policy()), policy);
  if (set.ok()) set = names_.places.check_owner(Caller::from(request.caller()), request.path());
  if (set.ok()) set = names_.policies.set(transaction, request.path(), policy);
  if (set.ok()) note_request(transaction, request.change());
  co_return module.finish(co_await store_.finish(module.context(), set, transaction));
}

asio::awaitable<Status> NamespaceService::get_policy(Context context, const proto::GetPolicyRequest& request,
                                                     proto::GetPolicyResponse& response) {
  sight::Module module{context, kGetPolicy};
  const Status found = extract(names_.policies.of(store_.kv, request.path()), response);
  co_return module.finish(co_await store_.finish_read(module.context(), found));
}

asio::awaitable<Status> NamespaceService::list_policies(Context context, const Empty&,
                                                        proto::ListPoliciesResponse& response) {
  sight::Module module{context, kListPolicies};
  const Reader reader(store_.kv);
  response.set_default_policy(names_.policies.default_policy(reader));
  reader.scan(keys::all(keys::Kind::kPolicy), [&](std::string_view key, std::string_view) {
    response.add_policies(std::string(keys::text_of(key)));
    return true;
  });
  co_return module.finish(co_await store_.finish_read(module.context()));
}

asio::awaitable<Status> NamespaceService::disk_usage(Context context, const proto::DiskUsageRequest& request,
                                                     proto::DiskUsageResponse& response) {
  sight::Module module{context, kDiskUsage};
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.directories_of(module.context(), request.path())));
  KINTSUGI_CO_TRY(
      module.finish(names_.places.check_access(Caller::from(request.caller()), request.path(), kMayRead)));
  const Result<Place> place = names_.places.at(request.path());
  if (!place) co_return module.finish(co_await store_.finish_read(module.context(), place.error()));
  if (place->lists_snapshots())
    co_return module.finish({Code::kInvalidArgument, request.path() + " has snapshots: count one of them"});
  size_t inodes = 0;
  TreeWalk tree = TreeWalk::below(place->view(), place->id(), request.path());
  while (const std::optional<TreeWalk::Item> item = tree.next(place->view())) {
    if (is_directory(item->inode)) {
      response.set_directories(response.directories() + 1);
    } else {
      response.set_files(response.files() + 1);
      response.set_bytes(response.bytes() + item->inode.size());
      response.set_stored_bytes(response.stored_bytes() + item->inode.stored_bytes());
    }
    if (++inodes % kInodesBetweenYields != 0) continue;
    if (store_.runtime.clock.now() > context.deadline) {
      co_return module.finish({Code::kDeadlineExceeded, "counting " + request.path() + " took too long"});
    }
    // Others get their turn. The walk needs no snapshot: it continues after the last name, whatever happened meanwhile.
    co_await asio::post(store_.runtime.executor, asio::use_awaitable);
  }
  module.output(0, double(inodes));
  co_return module.finish(co_await store_.finish_read(module.context()));
}

asio::awaitable<Status> NamespaceService::disk_free(Context context, const Empty&,
                                                    proto::DiskFreeResponse& response) {
  sight::Module module{context, kDiskFree};
  for (const auto& [id, server] : servers_.registry.servers()) {
    response.set_servers(response.servers() + 1);
    if (server.liveness == proto::ServerState::DEAD) continue;
    if (server.liveness == proto::ServerState::ALIVE)
      response.set_servers_alive(response.servers_alive() + 1);
    response.set_stored_bytes(response.stored_bytes() + server.load.stored_bytes());
  }
  const Reader reader(store_.kv);
  response.set_policy(names_.policies.default_policy(reader));
  if (const auto policy = erasure::Policy::parse(response.policy())) {
    const Capacity capacity = capacity_now(servers_.registry, *policy);
    response.set_total_bytes(capacity.total_bytes);
    response.set_free_bytes(capacity.free_bytes);
    response.set_storable_bytes(capacity.storable_bytes);
    *response.mutable_servers_room() = servers_room(servers_, *policy, store_.options.chunk_bytes);
  }
  *response.mutable_metadata_room() = store_.room.describe();
  const auto totals = reader.get_message<proto::StoredTotals>(keys::totals()).value_or(proto::StoredTotals{});
  response.set_files(totals.files());
  response.set_stripes(totals.stripes());
  *response.mutable_health() = health_.counts();
  for (proto::ServerName& name : reports_.not_reported())
    *response.mutable_health()->add_not_reported() = std::move(name);
  co_return module.finish(co_await store_.finish_read(module.context()));
}

}  // namespace kintsugi::metaserver

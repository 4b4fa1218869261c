#include "metaserver/service/snapshot_service.h"

#include "metaserver/namespace/requests.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kCreate{"metaserver.create_snapshot"};
constexpr sight::Site kDelete{"metaserver.delete_snapshot"};
constexpr sight::Site kListSnapshots{"metaserver.list_snapshots"};

}  // namespace

void SnapshotService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&SnapshotService::create>(Method::kCreateSnapshot, *this);
  server.handle<&SnapshotService::remove>(Method::kDeleteSnapshot, *this);
  server.handle<&SnapshotService::list>(Method::kListSnapshots, *this);
}

asio::awaitable<Status> SnapshotService::create(Context context, const proto::CreateSnapshotRequest& request,
                                                proto::Empty&) {
  sight::Module module{context, kCreate};
  if (request_carried_out(store_.kv, request.change()))
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  // Others lose leases for it, so that a stranger is refused first.
  KINTSUGI_CO_TRY(module.finish(names_.places.check_owner(Caller::from(request.caller()), request.path())));
  // What clients closed and did not write out yet belongs to it.
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.below(module.context(), request.path())));
  // Everything that was answered is in the store already, so one batch is all that a snapshot takes.
  Transaction transaction(store_.kv);
  Status made = store_.room.check();
  if (made.ok()) made = names_.places.check_owner(Caller::from(request.caller()), request.path());
  if (made.ok())
    made = names_.snapshots.create(transaction, request.path(), request.name(), names_.inodes.now_ns(),
                                   names_.inode_ids.limit());
  if (made.ok()) note_request(transaction, request.change());
  co_return module.finish(co_await store_.finish(module.context(), made, transaction));
}

asio::awaitable<Status> SnapshotService::remove(Context context, const proto::DeleteSnapshotRequest& request,
                                                proto::Empty&) {
  sight::Module module{context, kDelete};
  Transaction transaction(store_.kv);
  if (request_carried_out(store_.kv, request.change()))
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  Status removed = names_.places.check_owner(Caller::from(request.caller()), request.path());
  if (removed.ok()) removed = names_.snapshots.remove(transaction, request.path(), request.name());
  if (removed.ok()) note_request(transaction, request.change());
  co_return module.finish(co_await store_.finish(module.context(), removed, transaction));
}

asio::awaitable<Status> SnapshotService::list(Context context, const proto::ListSnapshotsRequest& request,
                                              proto::ListSnapshotsResponse& response) {
  sight::Module module{context, kListSnapshots};
  const Status listed = extract(names_.snapshots.list(store_.kv, request.path()), response);
  co_return module.finish(co_await store_.finish_read(module.context(), listed));
}

}  // namespace kintsugi::metaserver

#include "metaserver/service/trash_service.h"

#include "metaserver/namespace/requests.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kSetTrash{"metaserver.set_trash"};
constexpr sight::Site kListTrash{"metaserver.list_trash", {}, {"entries"}};
constexpr sight::Site kRestore{"metaserver.restore_trash"};
constexpr sight::Site kEmpty{"metaserver.empty_trash"};

}  // namespace

void TrashService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&TrashService::set>(Method::kSetTrash, *this);
  server.handle<&TrashService::list>(Method::kListTrash, *this);
  server.handle<&TrashService::restore>(Method::kRestoreTrash, *this);
  server.handle<&TrashService::empty>(Method::kEmptyTrash, *this);
}

asio::awaitable<Status> TrashService::set(Context context, const proto::SetTrashRequest& request,
                                          proto::Empty&) {
  sight::Module module{context, kSetTrash};
  KINTSUGI_CO_TRY(module.finish(check_root(Caller::from(request.caller()))));
  if (request_carried_out(store_.kv, request.change()))
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.directories_of(module.context(), request.path())));
  Transaction transaction(store_.kv);
  const Status set = names_.trash.set(transaction, names_.inodes, request.path(), request.retention_ns());
  if (set.ok()) note_request(transaction, request.change());
  // One more directory is not worth to be refused over a quota.
  if (set.ok()) (void)names_.quotas.account(transaction, false);
  co_return module.finish(co_await store_.finish(module.context(), set, transaction));
}

asio::awaitable<Status> TrashService::list(Context context, const proto::ListTrashRequest& request,
                                           proto::ListTrashResponse& response) {
  sight::Module module{context, kListTrash};
  KINTSUGI_CO_TRY(module.finish(check_root(Caller::from(request.caller()))));
  const Status listed = extract(
      names_.trash.list(Transaction(store_.kv), request.path(), request.after(), request.limit()), response);
  module.output(0, response.entries_size());
  co_return module.finish(co_await store_.finish_read(module.context(), listed));
}

asio::awaitable<Status> TrashService::restore(Context context, const proto::RestoreTrashRequest& request,
                                              proto::RestoreTrashResponse& response) {
  sight::Module module{context, kRestore};
  KINTSUGI_CO_TRY(module.finish(check_root(Caller::from(request.caller()))));
  if (request_carried_out(store_.kv, request.change())) {
    response.set_path(request.to());  // where the entry was before is not known any more
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  }
  // Whoever has the lease of the directory decides which names there are in it.
  const auto unsettled = [&](Unsettled& all) {
    all.directories_of(request.path());
    all.directories_of(request.to());
    if (!all.empty()) return;
    if (const auto into = names_.trash.destination(store_.kv, request)) all.inode(*into, 0);
  };
  KINTSUGI_CO_TRY(module.finish(co_await names_.settling.until_none(module.context(), unsettled)));
  Transaction transaction(store_.kv);
  FreedStripes freed;
  const Status restored =
      extract(names_.trash.restore(transaction, names_.inodes, request, freed), *response.mutable_path());
  if (restored.ok()) note_request(transaction, request.change());
  co_return module.finish(co_await store_.finish(module.context(), restored, transaction, std::move(freed)));
}

asio::awaitable<Status> TrashService::empty(Context context, const proto::EmptyTrashRequest& request,
                                            proto::Empty&) {
  sight::Module module{context, kEmpty};
  KINTSUGI_CO_TRY(module.finish(check_root(Caller::from(request.caller()))));
  const auto held = [this](InodeId inode) { return clients_.sessions.held(inode); };
  for (bool more = true; more;) {
    Transaction transaction(store_.kv);
    FreedStripes freed;
    const Status emptied = extract(
        names_.trash.empty(transaction, names_.inodes, request.path(), request.entry(), held, freed), more);
    // A removal shrinks usage, so no quota refuses it.
    if (emptied.ok()) (void)names_.quotas.account(transaction, false);
    const Status done = co_await store_.finish(module.context(), emptied, transaction, std::move(freed));
    if (!done.ok()) co_return module.finish(done);
  }
  co_return module.finish({});
}

}  // namespace kintsugi::metaserver

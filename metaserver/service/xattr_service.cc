#include "metaserver/service/xattr_service.h"

#include "metaserver/namespace/changes.h"
#include "metaserver/namespace/ops/xattrs.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kGetXattr{"metaserver.get_xattr"};
constexpr sight::Site kSetXattr{"metaserver.set_xattr"};
constexpr sight::Site kListXattrs{"metaserver.list_xattrs"};

}  // namespace

void XattrService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle<&XattrService::get_xattr>(Method::kGetXattr, *this);
  server.handle<&XattrService::set_xattr>(Method::kSetXattr, *this);
  server.handle<&XattrService::list_xattrs>(Method::kListXattrs, *this);
}

asio::awaitable<Status> XattrService::get_xattr(Context context, const proto::GetXattrRequest& request,
                                                proto::GetXattrResponse& response) {
  sight::Module module{context, kGetXattr};
  const Result<Place> place = names_.places.of(InodeId{request.inode()});
  const Status found =
      place ? extract(ops::get_xattr(Transaction(place->view()), Caller::from(request.caller()), place->id(),
                                     request.name()),
                      *response.mutable_value())
            : place.error();
  co_return module.finish(co_await store_.finish_read(module.context(), about_inode(found, request.inode())));
}

asio::awaitable<Status> XattrService::set_xattr(Context context, const proto::SetXattrRequest& request,
                                                proto::Empty&) {
  sight::Module module{context, kSetXattr};
  KINTSUGI_CO_TRY(module.finish(co_await clients_.leases.settle(module.context(), InodeId{request.inode()},
                                                                request.change().session())));
  if (carried_out(store_.kv, request.change()))
    co_return module.finish(co_await store_.finish_repeated(module.context()));
  Transaction transaction(store_.kv);
  Status set = request.remove() ? Status{} : store_.room.check();
  if (set.ok()) set = ops::set_xattr(names_.inodes, transaction, Caller::from(request.caller()), request);
  if (set.ok()) note_change(transaction, request.change(), kRootInode);
  const Status status = co_await store_.finish(module.context(), set, transaction);
  co_return module.finish(about_inode(status, request.inode()));
}

asio::awaitable<Status> XattrService::list_xattrs(Context context, const proto::ListXattrsRequest& request,
                                                  proto::ListXattrsResponse& response) {
  sight::Module module{context, kListXattrs};
  const Result<Place> place = names_.places.of(InodeId{request.inode()});
  const Result<std::vector<std::string>> names =
      place ? ops::list_xattrs(Transaction(place->view()), place->id()) : place.error();
  if (names)
    for (const std::string& name : *names)
      response.add_names(name);
  const Status status = names ? Status{} : names.error();
  co_return module.finish(
      co_await store_.finish_read(module.context(), about_inode(status, request.inode())));
}

}  // namespace kintsugi::metaserver

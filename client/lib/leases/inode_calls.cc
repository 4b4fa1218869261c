#include "client/lib/leases/inode_calls.h"

#include "common/log/log.h"

namespace kintsugi::client {

asio::awaitable<Status> InodeCalls::call(Context context, rpc::Method method, const Message& request,
                                         Message& response) {
  if (unsent_.pending()) KINTSUGI_CO_TRY(co_await unsent_.flush(context));
  co_return co_await calls_.call(context, method, request, response);
}

template <class Response, class Request>
asio::awaitable<Result<Response>> InodeCalls::ask(Context context, rpc::Method method, Request request) {
  Response response;
  KINTSUGI_CO_TRY(co_await call(context, method, request, response));
  co_return response;
}

template <class Response, class Request>
asio::awaitable<Result<Response>> InodeCalls::change(Context context, rpc::Method method, Request request,
                                                     uint64_t tag) {
  const ChangeNumbers::Turn turn = co_await session_.numbers().begin(context, tag);
  *request.mutable_change() = turn.change();
  Response response;
  KINTSUGI_CO_TRY(co_await call(context, method, request, response));
  co_return response;
}

template <class Request>
asio::awaitable<Result<proto::Attributes>> InodeCalls::change_inode(Context context, rpc::Method method,
                                                                    Request request, uint64_t tag) {
  KINTSUGI_CO_ASSIGN(proto::InodeResponse answer,
                     co_await change<proto::InodeResponse>(context, method, std::move(request), tag));
  co_return std::move(*answer.mutable_attributes());
}

asio::awaitable<Result<proto::Attributes>> InodeCalls::lookup(Context context, proto::LookupRequest request) {
  request.set_session(session_.id());
  KINTSUGI_CO_ASSIGN(proto::InodeResponse answer,
                     co_await ask<proto::InodeResponse>(context, rpc::Method::kLookup, std::move(request)));
  co_return std::move(*answer.mutable_attributes());
}

asio::awaitable<Result<proto::Attributes>> InodeCalls::get(Context context, uint64_t inode, bool open,
                                                           bool for_writing, proto::OpenReadResponse* where) {
  proto::GetInodeRequest request;
  request.set_inode(inode);
  request.set_session(session_.id());
  request.set_hold(open);
  request.set_lease(for_writing && session_.leases().may_want(inode));
  request.set_where(where != nullptr);
  const WriteLeases::Asking asking(session_.leases());
  const uint64_t tellings = session_.held().tellings();
  KINTSUGI_CO_ASSIGN(proto::InodeResponse answer,
                     co_await ask<proto::InodeResponse>(context, rpc::Method::kGetInode, std::move(request)));
  if (open) session_.held().held_by_call(inode, tellings);
  if (answer.lease()) session_.leases().granted(inode);
  if (where) *where = std::move(*answer.mutable_where());
  co_return std::move(*answer.mutable_attributes());
}

asio::awaitable<Result<proto::ListResponse>> InodeCalls::list(Context context,
                                                              proto::ListInodeRequest request) {
  request.set_session(session_.id());
  return ask<proto::ListResponse>(context, rpc::Method::kListInode, std::move(request));
}

asio::awaitable<Result<std::string>> InodeCalls::get_xattr(Context context, proto::GetXattrRequest request) {
  KINTSUGI_CO_ASSIGN(
      proto::GetXattrResponse answer,
      co_await ask<proto::GetXattrResponse>(context, rpc::Method::kGetXattr, std::move(request)));
  co_return std::move(*answer.mutable_value());
}

asio::awaitable<Result<std::vector<std::string>>> InodeCalls::list_xattrs(Context context, uint64_t inode) {
  proto::ListXattrsRequest request;
  request.set_inode(inode);
  KINTSUGI_CO_ASSIGN(
      proto::ListXattrsResponse answer,
      co_await ask<proto::ListXattrsResponse>(context, rpc::Method::kListXattrs, std::move(request)));
  co_return std::vector<std::string>(answer.names().begin(), answer.names().end());
}

asio::awaitable<Result<proto::OpenReadResponse>> InodeCalls::locate(Context context, uint64_t inode,
                                                                    uint64_t offset, uint64_t length) {
  proto::OpenReadRequest request;
  request.set_inode(inode);
  request.set_session(session_.id());
  request.set_offset(offset);
  request.set_length(length);
  return ask<proto::OpenReadResponse>(context, rpc::Method::kOpenRead, std::move(request));
}

asio::awaitable<Result<proto::Attributes>> InodeCalls::set_attributes(Context context,
                                                                      proto::SetAttributesRequest request,
                                                                      uint64_t tag) {
  return change_inode(context, rpc::Method::kSetAttributes, std::move(request), tag);
}

asio::awaitable<Result<proto::Attributes>> InodeCalls::make(Context context, proto::MakeInodeRequest request,
                                                            uint64_t tag,
                                                            std::optional<std::string>* leased) {
  const bool directory = request.type() == proto::Attributes::DIRECTORY && leased != nullptr;
  const bool file = request.hold_for() == session_.id() && request.type() == proto::Attributes::FILE;
  request.set_lease(file || directory);
  const bool hold = request.hold_for() != 0;
  const WriteLeases::Asking asking(session_.leases());
  const uint64_t tellings = session_.held().tellings();
  KINTSUGI_CO_ASSIGN(
      proto::InodeResponse answer,
      co_await change<proto::InodeResponse>(context, rpc::Method::kMakeInode, std::move(request), tag));
  if (hold) session_.held().held_by_call(answer.attributes().inode(), tellings);
  if (answer.lease()) session_.leases().granted(answer.attributes().inode());
  if (answer.lease() && directory && session_.leases().has(answer.attributes().inode()))
    *leased = answer.file_policy();
  co_return std::move(*answer.mutable_attributes());
}

asio::awaitable<Result<proto::Attributes>> InodeCalls::link(Context context, proto::LinkRequest request,
                                                            uint64_t tag) {
  return change_inode(context, rpc::Method::kLink, std::move(request), tag);
}

asio::awaitable<Result<proto::Attributes>> InodeCalls::unlink(Context context, proto::UnlinkRequest request,
                                                              uint64_t tag) {
  return change_inode(context, rpc::Method::kUnlink, std::move(request), tag);
}

asio::awaitable<Result<proto::Attributes>> InodeCalls::move(Context context, proto::MoveRequest request,
                                                            uint64_t tag) {
  return change_inode(context, rpc::Method::kMove, std::move(request), tag);
}

asio::awaitable<Status> InodeCalls::set_xattr(Context context, proto::SetXattrRequest request, uint64_t tag) {
  const auto answer = co_await change<proto::Empty>(context, rpc::Method::kSetXattr, std::move(request), tag);
  co_return answer ? Status{} : answer.error();
}

asio::awaitable<Result<proto::WriteExtentsResponse>> InodeCalls::write_extents(
    Context context, proto::WriteExtentsRequest request) {
  // Its number comes first: others that have theirs may wait for the very changes that are taken along.
  const ChangeNumbers::Turn turn = co_await session_.numbers().begin(context, 0);
  *request.mutable_change() = turn.change();
  proto::WriteExtentsResponse response;
  if (unsent_.send_along(context, *request.mutable_names())) {
    const Status along = co_await calls_.call(context, rpc::Method::kWriteExtents, request, response);
    unsent_.sent_along(request.names(), along.ok() ? &response.names() : nullptr);
    if (along.ok()) co_return response;
    if (is_without_answer(along)) co_return along;  // it was tried for as long as anything is
    // Nothing of it was done. What was in the way, one of the names or the bytes, is found out one after the other.
    log::debug("inode {}: not written along with names: {}", request.inode(), along.to_string());
  }
  request.clear_names();
  KINTSUGI_CO_TRY(co_await call(context, rpc::Method::kWriteExtents, request, response));
  co_return response;
}

asio::awaitable<Result<proto::CopyExtentsResponse>> InodeCalls::copy_extents(
    Context context, proto::CopyExtentsRequest request) {
  return change<proto::CopyExtentsResponse>(context, rpc::Method::kCopyExtents, std::move(request));
}

asio::awaitable<Result<proto::LockResponse>> InodeCalls::lock(Context context, proto::LockRequest request) {
  KINTSUGI_CO_TRY(session_.locks().own().check_room(request));
  const auto answer = co_await ask<proto::LockResponse>(context, rpc::Method::kLock, request);
  if (answer && answer->granted() && !request.test_only()) (void)session_.locks().own().set(request);
  co_return answer;
}

}  // namespace kintsugi::client

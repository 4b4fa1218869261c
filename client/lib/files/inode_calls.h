/// The metaserver's calls by inode (common/proto/inode.proto), one coroutine each.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "client/lib/files/session.h"
#include "client/lib/resources.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "common/rpc/method.h"

namespace kintsugi::client {

/// A call is repeated while the metaserver does not answer, up to the I/O timeout: then kUnavailable. Changes are, too: each
/// gets a number of the session, by which the metaserver knows a repeat, so `change` of a request is left empty. A `tag`
/// names what the change is made for: another process of the session that uses the same tag repeats the change (ChangeJournal).
/// Outlives its calls.
class InodeCalls {
 public:
  /// `io_timeout` 0: for ever.
  InodeCalls(Resources& resources, Session& session, Duration io_timeout);

  // ---- looking
  asio::awaitable<Result<proto::Attributes>> lookup(Context context, proto::LookupRequest request);
  /// `open`: the session holds it from now on; `for_writing`: with a write lease if that can be (Session::has_lease).
  /// `where`: is told where the bytes of a small file lie.
  asio::awaitable<Result<proto::Attributes>> get(Context context, uint64_t inode, bool open = false,
                                                 bool for_writing = false,
                                                 proto::OpenReadResponse* where = nullptr);
  asio::awaitable<Result<proto::ListResponse>> list(Context context, proto::ListInodeRequest request);
  asio::awaitable<Result<std::string>> get_xattr(Context context, proto::GetXattrRequest request);
  asio::awaitable<Result<std::vector<std::string>>> list_xattrs(Context context, uint64_t inode);
  /// Extents and stripes that touch the range; length 0: to the end.
  asio::awaitable<Result<proto::OpenReadResponse>> locate(Context context, uint64_t inode, uint64_t offset,
                                                          uint64_t length);

  // ---- changing. Of an open file: attributes, extents and size change by OpenFile, which knows what is not written yet.
  asio::awaitable<Result<proto::Attributes>> set_attributes(Context context,
                                                            proto::SetAttributesRequest request,
                                                            uint64_t tag = 0);
  asio::awaitable<Result<proto::Attributes>> make(Context context, proto::MakeInodeRequest request,
                                                  uint64_t tag = 0);
  asio::awaitable<Result<proto::Attributes>> link(Context context, proto::LinkRequest request,
                                                  uint64_t tag = 0);
  asio::awaitable<Result<proto::Attributes>> unlink(Context context, proto::UnlinkRequest request,
                                                    uint64_t tag = 0);
  asio::awaitable<Result<proto::Attributes>> move(Context context, proto::MoveRequest request,
                                                  uint64_t tag = 0);
  asio::awaitable<Status> set_xattr(Context context, proto::SetXattrRequest request, uint64_t tag = 0);
  /// Takes along what the metaserver does not know yet, when that is little.
  asio::awaitable<Result<proto::WriteExtentsResponse>> write_extents(Context context,
                                                                     proto::WriteExtentsRequest request);
  asio::awaitable<Result<proto::CopyExtentsResponse>> copy_extents(Context context,
                                                                   proto::CopyExtentsRequest request);
  /// Ids for inodes that this session makes by itself, and what it did (LeasedNames).
  asio::awaitable<Result<proto::ReserveInodesResponse>> reserve_inodes(Context context,
                                                                       proto::ReserveInodesRequest request);
  asio::awaitable<Result<proto::WriteNamesResponse>> write_names(Context context,
                                                                 const proto::WriteNamesRequest& request);
  /// Never waits for a lock that another one has: `granted` is false then. Not for an inode of which this session has the lease
  /// (LeasedLocks).
  asio::awaitable<Result<proto::LockResponse>> lock(Context context, proto::LockRequest request);

  /// Something was answered here that the metaserver does not know: catch_up() comes before any other call.
  std::function<bool()> is_ahead = [] { return false; };
  std::function<asio::awaitable<Status>(Context)> catch_up;
  /// All of that as a part of another call of that context, whose outcome `taken_along` is told (nothing: it is not carried out). False: not now.
  std::function<bool(const Context&, proto::WriteNamesRequest&)> take_along =
      [](const Context&, proto::WriteNamesRequest&) { return false; };
  std::function<void(const proto::WriteNamesRequest&, const proto::WriteNamesResponse*)> taken_along;
  /// Called with new directories of which the session has the lease. Without it none is asked for.
  std::function<void(const proto::Attributes& directory, const std::string& file_policy)> on_directory_lease;

  Session& session() { return session_; }

 private:
  using Message = google::protobuf::MessageLite;

  asio::awaitable<Status> call(Context context, rpc::Method method, const Message& request,
                               Message& response);
  /// Makes the call at once, without a catch_up() before it: for a call that needs none of the changes that were answered here.
  asio::awaitable<Status> call_now(Context context, rpc::Method method, const Message& request,
                                   Message& response);
  template <class Response, class Request>
  asio::awaitable<Result<Response>> ask(Context context, rpc::Method method, Request request);
  /// With a number of the session.
  template <class Response, class Request>
  asio::awaitable<Result<Response>> change(Context context, rpc::Method method, Request request,
                                           uint64_t tag = 0);
  template <class Request>
  asio::awaitable<Result<proto::Attributes>> change_inode(Context context, rpc::Method method,
                                                          Request request, uint64_t tag = 0);

  Resources& resources_;
  Session& session_;
  const Duration io_timeout_;
  MetaLink link_;
};

}  // namespace kintsugi::client

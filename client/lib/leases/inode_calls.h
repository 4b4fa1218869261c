/// The metaserver's calls by inode (common/proto/inode.proto), one coroutine each.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/lib/leases/repeated_calls.h"
#include "client/lib/leases/session.h"
#include "client/lib/leases/unsent_names.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "common/rpc/method.h"

namespace kintsugi::client {

/// A call is repeated while the metaserver does not answer, up to the I/O timeout: then kUnavailable. It is sent
/// after all that was answered here before (UnsentNames). Changes are repeated, too: each gets a number of the
/// session, by which the metaserver knows a repeat, so `change` of a request is left empty. A `tag` names what the
/// change is made for: another process of the session that uses the same tag repeats the change (ChangeJournal).
/// Outlives its calls.
class InodeCalls {
 public:
  InodeCalls(Session& session, RepeatedCalls& calls, UnsentNames& unsent)
      : session_(session), calls_(calls), unsent_(unsent) {}

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

  // ---- changing. Of an open file: attributes, extents and size change by OpenFile, which knows what is not written
  // yet.
  asio::awaitable<Result<proto::Attributes>> set_attributes(Context context,
                                                            proto::SetAttributesRequest request,
                                                            uint64_t tag = 0);
  /// `leased`, for a directory: its lease is asked for. If the session has it then, the code of new files in it is
  /// put there.
  asio::awaitable<Result<proto::Attributes>> make(Context context, proto::MakeInodeRequest request,
                                                  uint64_t tag = 0,
                                                  std::optional<std::string>* leased = nullptr);
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
  /// Never waits for a lock that another one has: `granted` is false then. Not for an inode of which this session has
  /// the lease (LeasedLocks).
  asio::awaitable<Result<proto::LockResponse>> lock(Context context, proto::LockRequest request);

  Session& session() { return session_; }

 private:
  using Message = RepeatedCalls::Message;

  asio::awaitable<Status> call(Context context, rpc::Method method, const Message& request,
                               Message& response);
  template <class Response, class Request>
  asio::awaitable<Result<Response>> ask(Context context, rpc::Method method, Request request);
  /// Sends a change under a number of the session, so that it is carried out once.
  template <class Response, class Request>
  asio::awaitable<Result<Response>> change(Context context, rpc::Method method, Request request,
                                           uint64_t tag = 0);
  template <class Request>
  asio::awaitable<Result<proto::Attributes>> change_inode(Context context, rpc::Method method,
                                                          Request request, uint64_t tag = 0);

  Session& session_;
  RepeatedCalls& calls_;
  UnsentNames& unsent_;
};

}  // namespace kintsugi::client

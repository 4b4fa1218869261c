/// The RPCs by inode (common/proto/inode.proto): names and attributes. Contents, extended attributes and sessions are apart.
#pragma once

#include "common/rpc/server.h"
#include "metaserver/namespace/cuts.h"
#include "metaserver/service/file_service.h"
#include "metaserver/service/lease_grants.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References outlive it.
class InodeService {
 public:
  InodeService(MetaStore& store, NamespaceParts& names, Clients& clients, LeaseGrants& lease_grants,
               const FileService& files)
      : store_(store), names_(names), clients_(clients), lease_grants_(lease_grants), files_(files) {}
  void register_on(rpc::Server& server);

 private:
  using Empty = proto::Empty;
  using InodeResponse = proto::InodeResponse;
  asio::awaitable<Status> lookup(Context context, const proto::LookupRequest& request,
                                 InodeResponse& response);
  asio::awaitable<Status> get(Context context, const proto::GetInodeRequest& request,
                              InodeResponse& response);
  asio::awaitable<Status> set_attributes(Context context, const proto::SetAttributesRequest& request,
                                         InodeResponse& response);
  asio::awaitable<Status> make(Context context, const proto::MakeInodeRequest& request,
                               InodeResponse& response);
  asio::awaitable<Status> link(Context context, const proto::LinkRequest& request, InodeResponse& response);
  asio::awaitable<Status> unlink(Context context, const proto::UnlinkRequest& request, Empty& response);
  asio::awaitable<Status> move(Context context, const proto::MoveRequest& request, Empty& response);
  asio::awaitable<Status> list(Context context, const proto::ListInodeRequest& request,
                               proto::ListResponse& response);
  /// Ends a change: notes that it was carried out, with the inode that it is about, and commits it.
  asio::awaitable<Status> finish(Context context, Result<InodeId> done, const proto::Change& change,
                                 Transaction& transaction, FreedStripes freed = {});
  /// Returns a function that returns true if somebody may have an inode open.
  std::function<bool(InodeId)> held() const {
    return [this](InodeId inode) { return clients_.sessions.held(inode); };
  }
  /// Returns once nobody else keeps anything back of the file and, in the same turn, it is known in which steps it is
  /// to be cut off.
  asio::awaitable<Status> settle(Context context, InodeId file, uint64_t session, Cuts* cuts);
  /// Applies the request with `size` in place of its size. Only with `last` is the change noted as carried out.
  asio::awaitable<Status> set_in_step(Context context, const proto::SetAttributesRequest& request,
                                      uint64_t size, bool last);
  Status attributes_of(InodeId id, InodeResponse& response) const;
  /// Gives the lease of a new file to the session that it is held for, if that may have it. Returns what became of its
  /// attributes.
  asio::awaitable<Status> grant_lease(const proto::MakeInodeRequest& request, InodeId made,
                                      InodeResponse& response);
  Status find(const proto::LookupRequest& request, InodeResponse& response) const;

  /// Whoever opens a file of at most so many bytes is told at once where they lie.
  static constexpr uint64_t kSmallFile = 256 << 10;

  MetaStore& store_;
  NamespaceParts& names_;
  Clients& clients_;
  LeaseGrants& lease_grants_;
  const FileService& files_;
};

}  // namespace kintsugi::metaserver

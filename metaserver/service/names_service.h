/// The RPCs of names that a session gives by itself, under the lease of a directory (common/proto/inode.proto).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/proto/inode.pb.h"
#include "common/rpc/server.h"
#include "metaserver/namespace/changes.h"
#include "metaserver/service/lease_grants.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

/// One function for each RPC. References outlive it.
class NamesService {
 public:
  static constexpr uint32_t kMaxReserved = 4096;  ///< ids reserved in one call
  static constexpr int kMaxChanges = 1000;        ///< limit for one call

  NamesService(MetaStore& store, NamespaceParts& names, Clients& clients, LeaseGrants& lease_grants)
      : store_(store), names_(names), clients_(clients), lease_grants_(lease_grants) {}
  void register_on(rpc::Server& server);

  asio::awaitable<Status> write_names(Context context, const proto::WriteNamesRequest& request,
                                      proto::WriteNamesResponse& response);
  /// Makes all of the changes a part of the transaction. Adds the leases that were granted, which are to be given back
  /// when it is not committed, and the stripes that are freed. After an error it must not be committed.
  Status write_along(Transaction& transaction, const proto::WriteNamesRequest& request,
                     proto::WriteNamesResponse& response, std::vector<InodeId>& granted, FreedStripes& freed);

 private:
  using Written = proto::WriteNamesResponse::Written;
  /// What the changes of one call have in common.
  struct Round {
    uint64_t session = 0;
    std::vector<ReservedInodes> reserved;
    std::map<InodeId, std::string> policies;  ///< policy of new files in each directory
    std::vector<InodeId> granted;             ///< directories whose leases were granted
    FreedStripes freed;
  };
  /// kConflict: a later message of the session came before.
  Status check(const proto::WriteNamesRequest& request);
  bool was_overtaken(const proto::WriteNamesRequest& request) const;
  void note_done(const proto::WriteNamesRequest& request);
  /// Answers a message that was carried out before with its inodes as they are now.
  void tell_present(const proto::WriteNamesRequest& request, proto::WriteNamesResponse& response) const;
  /// Applies changes [begin, end), all or none. After an error, the leases that it granted are to be given back.
  Status apply_all(Transaction& transaction, const proto::WriteNamesRequest& request, int begin, int end,
                   Round& round, proto::WriteNamesResponse& response);

  asio::awaitable<Status> reserve_inodes(Context context, const proto::ReserveInodesRequest& request,
                                         proto::ReserveInodesResponse& response);

  /// Commits changes [begin, end), all or none.
  asio::awaitable<Status> carry_out(Context context, const proto::WriteNamesRequest& request, int begin,
                                    int end, proto::WriteNamesResponse& response);
  /// kLeaseLost, before anything is changed: the lease under which it was done is another's by now.
  Status apply(Transaction& transaction, const proto::NameChange& change, Round& round, Written& written);
  Status make(Transaction& transaction, const proto::NameChange& change, Round& round, Written& written);
  Status unlink(Transaction& transaction, const proto::NameChange& change, Round& round, Written& written);
  Status set_attributes(Transaction& transaction, const proto::NameChange& change, const Round& round,
                        Written& written);
  void grant(const proto::StoredInode& inode, InodeId id, Round& round, Written& written);

  MetaStore& store_;
  NamespaceParts& names_;
  Clients& clients_;
  LeaseGrants& lease_grants_;
};

}  // namespace kintsugi::metaserver

/// What tokens may ask of a metaserver beside the right of the method: where, and what the user 0 of a client's host may do.
///
/// A token with a path is checked by the names of paths and by the parents of inodes. Methods that are not known here
/// are refused to it.
///
/// Requests by inode name no user: whether a user may open a file is decided by the kernel of the client's host, whose
/// root may have it decide anything. So a token that squashes root gets by inode what anybody but root may have: the
/// inode and every directory above it has to be open to somebody else. For the same reason it gets no write leases,
/// under which changes are told that have been promised already. Nor do tokens that only read.
#pragma once

#include <google/protobuf/message_lite.h>

#include "common/proto/inode.pb.h"
#include "common/rpc/method.h"
#include "common/rpc/token.h"
#include "metaserver/namespace/places.h"
#include "metaserver/namespace/snapshots.h"

namespace kintsugi::metaserver {

class TokenGate {
 public:
  /// References outlive it.
  TokenGate(const ReadView& store, const Snapshots& snapshots, const Places& places)
      : store_(store), snapshots_(snapshots), places_(places) {}

  /// REQUIRES: `request` is one of that method. kPermissionDenied, kAccessDenied.
  Status admit(const rpc::Principal& by, rpc::Method method, google::protobuf::MessageLite& request) const;

 private:
  struct Scope;

  /// Ids can be guessed before there is an inode, which may be outside then. Its lease comes with its name.
  void forget_leases_of_nothing(proto::KeepSessionRequest& request) const;
  Status check_scope(const rpc::Principal& by, rpc::Method method,
                     google::protobuf::MessageLite& request) const;
  /// A mount looks the names of its token's path up from the root on, and sees nothing else there.
  bool is_on_the_way(const Scope& scope, rpc::Method method, google::protobuf::MessageLite& request) const;
  bool is_inside(const Scope& scope, InodeId inode) const;
  /// An inode of a snapshot of that directory is one that the snapshot has.
  bool is_below(InodeId directory, InodeId in_snapshot) const;
  Status check_squashed(rpc::Method method, const google::protobuf::MessageLite& request) const;
  /// Ok when anybody but root may do that with the inode, as far as its mode says. kAccessDenied.
  Status check_others(uint64_t inode, uint32_t wanted) const;

  const ReadView& store_;
  const Snapshots& snapshots_;
  const Places& places_;
};

}  // namespace kintsugi::metaserver

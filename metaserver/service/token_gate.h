/// What tokens may ask of a metaserver beside the right of the method: where, and what the user 0 of a client's host may do.
///
/// A token with a path is checked by the names of paths and by the parents of inodes. Methods that are not known here
/// are refused to it.
///
/// Requests by inode name no user: whether a user may open a file is decided by the kernel of the client's host, whose
/// root may have it decide anything. So a token that squashes root gets by inode what anybody but root may have: the
/// inode and every directory above it has to be open to somebody else.
///
/// Only tokens that may write everything get write leases. A client acknowledges changes under a lease before it sends
/// them, so that a refusal would come too late: also that of a file which another client has moved out of the path.
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

  /// Takes out what the session names and may not name any more, since it was moved out of the path or removed: the
  /// session keeps the rest.
  void forget_what_is_outside(const rpc::Principal& by, const Scope& scope,
                              proto::KeepSessionRequest& request) const;
  Status check_scope(const rpc::Principal& by, rpc::Method method,
                     google::protobuf::MessageLite& request) const;
  /// kNotPermitted: it would be a second name.
  Status check_link(const rpc::Principal& by, const proto::LinkRequest& request) const;
  /// A mount looks the names of its token's path up from the root on, and sees nothing else there.
  bool is_on_the_way(const Scope& scope, rpc::Method method, google::protobuf::MessageLite& request) const;
  /// kStale: there is no such inode. Its id can be guessed before there is one, which may be outside then, and handlers
  /// wait for leases before they look. kAccessDenied.
  Status check_inside(const rpc::Principal& by, const Scope& scope, uint64_t inode) const;
  /// An inode of a snapshot of that directory is one that the snapshot has.
  bool is_below(InodeId directory, InodeId in_snapshot) const;
  Status check_squashed(rpc::Method method, const google::protobuf::MessageLite& request) const;
  /// Ok when anybody but root may do that with the inode, as far as its mode says. kStale, kAccessDenied.
  Status check_others(uint64_t inode, uint32_t wanted) const;

  const ReadView& store_;
  const Snapshots& snapshots_;
  const Places& places_;
};

}  // namespace kintsugi::metaserver

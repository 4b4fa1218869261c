/// Decides about each request of a connection, and tells of those that administer.
#pragma once

#include <string>
#include <utility>

#include "common/rpc/handler.h"
#include "common/rpc/server_core.h"
#include "common/rpc/token.h"

namespace kintsugi::rpc {

class Admission {
 public:
  /// `core` outlives it.
  Admission(ServerCore& core, Principal by, std::string peer)
      : core_(core),
        by_(std::move(by)),
        peer_(std::move(peer)),
        use_(core.uses->opened(by_, peer_, core.runtime.clock.now())) {}

  /// The secret with which the connection was proven, or that signed its token, is accepted still: one that was dropped ends
  /// the connections that it began. To be asked before each request, which it notes.
  bool stands() const;
  /// The token that the requests are made with; 0: the secret.
  uint64_t token() const { return by_.is_token() ? by_.id : 0; }
  /// The one place where requests are refused for lack of rights: kPermissionDenied, kUnavailable (RefusedTokens), or
  /// what the daemon says (Server::admit_tokens_by). Replaces the user 0 when the token says so. `caller` is that of the
  /// method's handler.
  Status admit(CallerOf caller, Method method, google::protobuf::MessageLite& request) const;
  /// To be called with the outcome of each request, also of one that was not admitted. Of what tokens are refused only some
  /// is told in a minute, and how much was not.
  void ended(Method method, const google::protobuf::MessageLite& request, const Status& outcome) const;

 private:
  ServerCore& core_;
  const Principal by_;
  const std::string peer_;
  const std::shared_ptr<SecretUses::Connection> use_;
  mutable uint64_t stood_at_ = 0;  ///< the version of the daemon's keys of which stands() was true last
};

}  // namespace kintsugi::rpc

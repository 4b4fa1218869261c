#include "common/rpc/refused_tokens.h"

namespace kintsugi::rpc {

Status RefusedTokens::check(const Principal& principal, WallTime now) const {
  if (!principal.is_token()) return {};
  if (!known_) return {Code::kUnavailable, "it is not known here yet which tokens are revoked"};
  if (ids_.contains(principal.id)) return {Code::kPermissionDenied, principal.text() + " is revoked"};
  return check_time(principal, now);
}

}  // namespace kintsugi::rpc

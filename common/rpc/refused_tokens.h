/// Tokens that a server refuses although their holders have the keys.
#pragma once

#include <unordered_set>
#include <utility>

#include "common/rpc/token.h"

namespace kintsugi::rpc {

class RefusedTokens {
 public:
  /// These ids are all that are revoked. Before the first call nothing is known.
  void replace(std::unordered_set<uint64_t> ids) {
    ids_ = std::move(ids);
    known_ = true;
  }

  /// kPermissionDenied: it is revoked, has expired or is not good yet. kUnavailable: nothing is known yet. Whoever has the
  /// secret is never refused.
  Status check(const Principal& principal, WallTime now) const;

 private:
  std::unordered_set<uint64_t> ids_;
  bool known_ = false;
};

}  // namespace kintsugi::rpc

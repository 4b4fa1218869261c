/// What each RPC needs the right for: the one table by which servers admit requests.
#pragma once

#include "common/rpc/method.h"
#include "common/rpc/token.h"

namespace kintsugi::rpc {

/// In ascending order: whoever may do one of these may do those before it.
enum class Right : uint8_t {
  kRead,        ///< see files, and what a client that reads them has to know of the cluster
  kWrite,       ///< change files, and what belongs to them
  kInspect,     ///< see the state of the cluster
  kAdminister,  ///< change the cluster: each such request is told in the audit log
  kServe,       ///< be a part of the cluster: a daemon
};

Right right_of(Method method);
/// The last right that the role gives.
Right highest_right(Role role);

/// kPermissionDenied: the principal's role does not give the right that the method needs.
Status check_right(const Principal& principal, Method method);

}  // namespace kintsugi::rpc

/// The call by which an operator learns which secrets a daemon has.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/proto/token.pb.h"
#include "common/proto/types.pb.h"
#include "common/rpc/secret.h"
#include "common/rpc/secret_uses.h"
#include "common/runtime/clock.h"
#include "common/runtime/context.h"
#include "common/runtime/runtime.h"

namespace kintsugi::rpc {

/// A handler for Server::handle. Looks at the secret's file first. The answer names secrets by Secret::id(), and who still has
/// connections with another one than that in use.
class SecretStatus {
 public:
  /// What the daemon signs for others is good for `signed_for` at most. The clock outlives it.
  SecretStatus(Secret secret, std::shared_ptr<const SecretUses> uses, const runtime::Clock& clock,
               Duration signed_for)
      : secret_(std::move(secret)), uses_(std::move(uses)), clock_(clock), signed_for_(signed_for) {}

  asio::awaitable<Status> operator()(Context context, const proto::Empty& request,
                                     proto::SecretStatusResponse& response);

 private:
  const Secret secret_;
  const std::shared_ptr<const SecretUses> uses_;
  const runtime::Clock& clock_;
  const Duration signed_for_;
};

}  // namespace kintsugi::rpc

/// The signed proof of an allocation, which a client hands back when it seals a stripe. It lets a metaserver that has
/// restarted meanwhile accept the stripe without having stored anything about it.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/proto/store.pb.h"
#include "common/rpc/secret.h"

namespace kintsugi::metaserver {

/// The serialised ticket, then its MAC.
std::string sign_ticket(const rpc::Secret& secret, const proto::StripeTicket& ticket);

/// kPermissionDenied: not signed with this secret, or expired.
Result<proto::StripeTicket> open_ticket(const rpc::Secret& secret, std::string_view signed_ticket,
                                        WallTime now);

}  // namespace kintsugi::metaserver

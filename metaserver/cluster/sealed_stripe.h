/// Checks what a client says about a stripe that it wrote.
#pragma once

#include "common/base/status.h"
#include "common/proto/store.pb.h"
#include "common/proto/types.pb.h"

namespace kintsugi::metaserver {

/// The stripe record, when `stripe` is one that `ticket` allows: its id and policy, k+m chunks in order,
/// lengths as the striping has them, every chunk on the server it was allocated on or nowhere. At most m-1
/// chunks that have bytes may be nowhere, none when m is below 2. kInvalidArgument says what is wrong.
Result<proto::StoredStripe> check_sealed(const proto::Stripe& stripe, const proto::StripeTicket& ticket);

}  // namespace kintsugi::metaserver

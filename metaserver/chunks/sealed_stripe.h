/// Checks a client's description of a stripe that it wrote.
#pragma once

#include "common/base/status.h"
#include "common/proto/store.pb.h"
#include "common/proto/types.pb.h"

namespace kintsugi::metaserver {

/// Makes the stripe record, when `stripe` is one that `ticket` allows: its id and policy, k+m chunks in order, lengths
/// as the striping has them, every chunk on the server it was allocated on or nowhere. Chunks that have bytes may be
/// nowhere as long as the stripe survives one more loss, whichever it is; none may when it survives but one from the
/// start. kInvalidArgument says what is wrong.
Result<proto::StoredStripe> check_sealed(const proto::Stripe& stripe, const proto::StripeTicket& ticket);

}  // namespace kintsugi::metaserver

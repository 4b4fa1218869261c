/// Servers and stripes as a repair manager sees them, from messages.
#pragma once

#include <optional>

#include "common/proto/coordination.pb.h"
#include "common/proto/meta.pb.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::repair_manager {

/// nullopt: its address makes no sense, which is logged.
std::optional<ServerView> server_view(const proto::ServerState& state);
/// Leaves out the hints (caches, heat), which the message does not have.
StripeView stripe_view(const proto::Stripe& stripe);

StripeView stripe_view(const proto::StripeDescription& description);

}  // namespace kintsugi::repair_manager

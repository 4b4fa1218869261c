#include "repair_manager/view/wire_views.h"

#include "common/log/log.h"

namespace kintsugi::repair_manager {

std::optional<ServerView> server_view(const proto::ServerState& state) {
  Result<runtime::Endpoint> address = runtime::Endpoint::parse(state.address());
  if (!address) {
    log::error("server {} takes no part in repairs: {}", state.name(), address.error().to_string());
    return std::nullopt;
  }
  return ServerView{.id = ServerId{state.server_id()},
                    .name = state.name(),
                    .address = std::move(*address),
                    .rack = state.rack(),
                    .alive = state.liveness() == proto::ServerState::ALIVE,
                    .free_bytes = state.free_bytes(),
                    .user_bytes_per_second = state.user_bytes_per_second(),
                    .up_bytes_per_second = state.up_bytes_per_second(),
                    .down_bytes_per_second = state.down_bytes_per_second(),
                    .repair_limit_bytes_per_second = state.repair_limit_bytes_per_second(),
                    .busy = state.busy(),
                    .draining = state.draining(),
                    .slow = state.has_slow() || state.maintenance_seconds() > 0,
                    .maintenance_left = std::chrono::duration_cast<Duration>(
                        std::chrono::duration<double>(state.maintenance_seconds()))};
}

StripeView stripe_view(const proto::Stripe& stripe) {
  StripeView view{.id = StripeId{stripe.stripe_id()}, .policy = stripe.policy(), .length = stripe.length()};
  for (const proto::ChunkPlacement& chunk : stripe.chunks())
    view.chunks.push_back({.index = chunk.index(),
                           .server = ServerId{chunk.server_id()},
                           .length = chunk.length(),
                           .crc = chunk.crc(),
                           .available = chunk.available()});
  return view;
}

StripeView stripe_view(const proto::StripeDescription& description) {
  StripeView view = stripe_view(description.stripe());
  for (const proto::ChunkHint& hint : description.hints()) {
    if (hint.index() >= view.chunks.size()) continue;
    view.chunks[hint.index()].cached = hint.cached();
    view.chunks[hint.index()].heat = hint.heat();
    view.chunks[hint.index()].lost = hint.lost();
  }
  return view;
}

}  // namespace kintsugi::repair_manager

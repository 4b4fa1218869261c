#include "metaserver/daemon/repair_cluster_view.h"

#include "common/log/log.h"

namespace kintsugi::metaserver {

using repair_manager::ChunkView;
using repair_manager::ServerView;
using repair_manager::StripeView;

std::vector<ServerView> RepairClusterView::servers() const {
  std::vector<ServerView> servers;
  for (proto::ServerState& state : metaserver_.servers()) {
    Result<runtime::Endpoint> address = runtime::Endpoint::parse(state.address());
    if (!address) {
      log::error("server {} takes no part in repairs: {}", state.server_id(), address.error().to_string());
      continue;
    }
    servers.push_back({.id = ServerId{state.server_id()},
                       .address = std::move(*address),
                       .rack = std::move(*state.mutable_rack()),
                       .alive = state.liveness() == proto::ServerState::ALIVE,
                       .free_bytes = state.free_bytes(),
                       .user_bytes_per_second = state.user_bytes_per_second()});
  }
  return servers;
}

std::optional<StripeView> RepairClusterView::stripe(StripeId id) const {
  const std::optional<proto::Stripe> stripe = metaserver_.stripe(id);
  if (!stripe) return std::nullopt;
  StripeView view{.id = id, .policy = stripe->policy(), .length = stripe->length()};
  for (const proto::ChunkPlacement& chunk : stripe->chunks())
    view.chunks.push_back({.index = chunk.index(),
                           .server = ServerId{chunk.server_id()},
                           .length = chunk.length(),
                           .crc = chunk.crc(),
                           .available = chunk.available()});
  return view;
}

bool RepairClusterView::deletion_pending(ChunkId chunk, ServerId server) const {
  return metaserver_.deletion_pending(chunk, server);
}

std::string RepairClusterView::capability(ChunkId chunk, uint32_t operations, WallTime expiry) const {
  return metaserver_.capability(chunk, operations, expiry);
}

asio::awaitable<Result<proto::RepairChunkResponse>> RepairClusterView::execute(
    Context context, runtime::Endpoint destination, proto::RepairChunkRequest request) {
  co_return co_await client_.call<proto::RepairChunkResponse>(context, destination, rpc::Method::kRepairChunk,
                                                              request);
}

asio::awaitable<Status> RepairClusterView::commit_repair(Context context, ChunkId chunk,
                                                         ServerId expected_old, ServerId server) {
  return metaserver_.commit_repair(context, chunk, expected_old, server);
}

void RepairClusterView::report_lost(ChunkId chunk, ServerId server, const std::string& why) {
  metaserver_.report_lost(chunk, server, why);
}

}  // namespace kintsugi::metaserver

#include "metaserver/daemon/repair_cluster_view.h"

#include <functional>

#include "common/base/assert.h"

namespace kintsugi::metaserver {

using repair_manager::ServerView;
using repair_manager::StripeView;

namespace {

void for_each_stored(const google::protobuf::RepeatedPtrField<proto::RepairNode>& nodes,
                     const std::function<void(uint32_t index)>& visit) {
  for (const proto::RepairNode& node : nodes) {
    for (const proto::RebuiltChunk& chunk : node.stores())
      visit(chunk.index());
    for_each_stored(node.children(), visit);
  }
}

}  // namespace

std::vector<ServerView> RepairClusterView::servers() const {
  std::vector<ServerView> servers;
  for (const auto& [id, server] : state_.servers.servers()) {
    Result<runtime::Endpoint> address = runtime::Endpoint::parse(server.stored.address());
    KINTSUGI_ASSERT(address);  // the registry refuses servers without one
    servers.push_back({.id = id,
                       .name = state_.servers.name_of(id),
                       .address = std::move(*address),
                       .rack = server.stored.rack(),
                       .alive = server.liveness == proto::ServerState::ALIVE,
                       .free_bytes = server.load.free_bytes(),
                       .user_bytes_per_second = server.load.user_bytes_per_second(),
                       .up_bytes_per_second = server.load.up_bytes_per_second(),
                       .down_bytes_per_second = server.load.down_bytes_per_second(),
                       .repair_limit_bytes_per_second = server.load.repair_limit_bytes_per_second(),
                       .busy = server.load.busy(),
                       .draining = server.stored.draining(),
                       .slow = state_.slow.contains(id)});
  }
  return servers;
}

std::optional<StripeView> RepairClusterView::stripe(StripeId id) const {
  const auto stored = load_stripe(state_.store, id);
  if (!stored) return std::nullopt;
  StripeView view{.id = id, .policy = stored->policy(), .length = stored->length()};
  view.chunks.reserve(static_cast<size_t>(stored->chunks_size()));
  for (uint32_t i = 0; i < static_cast<uint32_t>(stored->chunks_size()); ++i) {
    const proto::StoredChunk& chunk = stored->chunks(static_cast<int>(i));
    const ServerId server{chunk.server_id()};
    view.chunks.push_back({.index = i,
                           .server = server,
                           .length = chunk.length(),
                           .crc = chunk.crc(),
                           .available = state_.chunks.available({id, i}, chunk),
                           .cached = state_.caches.cached(server, {id, i}),
                           .heat = static_cast<float>(state_.caches.heat(server, {id, i}))});
  }
  return view;
}

bool RepairClusterView::deletion_pending(ChunkId chunk, ServerId server) const {
  return repairs_.deletion_pending(chunk, server);
}

std::string RepairClusterView::capability(ChunkId chunk, uint32_t operations, WallTime expiry) const {
  return rpc::make_capability(state_.secret, chunk, operations, expiry);
}

asio::awaitable<Result<proto::RepairChunkResponse>> RepairClusterView::execute(
    Context context, runtime::Endpoint destination, proto::RepairChunkRequest request) {
  const StripeId stripe{request.stripe_id()};
  repairs_.begins({stripe, request.index()});
  for_each_stored(request.children(), [&](uint32_t index) { repairs_.begins({stripe, index}); });
  proto::RepairChunkResponse response;
  KINTSUGI_CO_TRY(
      co_await client_.call(context, std::move(destination), rpc::Method::kRepairChunk, request, response));
  co_return response;
}

asio::awaitable<void> RepairClusterView::give_up(Context context, runtime::Endpoint destination,
                                                 proto::EndRepairRequest request) {
  // If it was not heard, there is nothing more to do: the repair ends at its own deadline.
  proto::Empty response;
  (void)co_await client_.call(context, std::move(destination), rpc::Method::kEndRepair, request, response);
}

asio::awaitable<Status> RepairClusterView::commit_repair(Context context, ChunkId chunk,
                                                         ServerId expected_old, ServerId server) {
  return repairs_.commit(context, chunk, expected_old, server);
}

void RepairClusterView::report_lost(ChunkId chunk, ServerId server, const std::string& why) {
  state_.report_lost(chunk, server, why, /*proven=*/false);
}

}  // namespace kintsugi::metaserver

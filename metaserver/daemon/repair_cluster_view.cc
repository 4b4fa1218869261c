#include "metaserver/daemon/repair_cluster_view.h"

#include <functional>

#include "repair_manager/view/wire_views.h"

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
  for (const proto::ServerState& state : metaserver_.servers())
    if (std::optional<ServerView> server = repair_manager::server_view(state))
      servers.push_back(std::move(*server));
  return servers;
}

std::optional<StripeView> RepairClusterView::stripe(StripeId id) const {
  const std::optional<proto::Stripe> stripe = metaserver_.stripe(id);
  if (!stripe) return std::nullopt;
  StripeView view = repair_manager::stripe_view(*stripe);
  for (repair_manager::ChunkView& chunk : view.chunks) {
    chunk.cached = metaserver_.caches().cached(chunk.server, {id, chunk.index});
    chunk.heat = static_cast<float>(metaserver_.caches().heat(chunk.server, {id, chunk.index}));
  }
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
  const StripeId stripe{request.stripe_id()};
  metaserver_.repair_begins({stripe, request.index()});
  for_each_stored(request.children(), [&](uint32_t index) { metaserver_.repair_begins({stripe, index}); });
  co_return co_await client_.call<proto::RepairChunkResponse>(context, destination, rpc::Method::kRepairChunk,
                                                              request);
}

asio::awaitable<void> RepairClusterView::give_up(Context context, runtime::Endpoint destination,
                                                 proto::EndRepairRequest request) {
  (void)co_await client_.call<proto::Empty>(context, std::move(destination), rpc::Method::kEndRepair,
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

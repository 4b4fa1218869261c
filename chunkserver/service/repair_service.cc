#include "chunkserver/service/repair_service.h"

#include "common/rpc/token.h"
#include "partial_sum/check_tree.h"

namespace kintsugi::chunkserver {
namespace {

/// Whoever is dialled is shown a proof of the cluster's secret, and could pass it on to another daemon, which would take it
/// for this one. So a token has nobody dialled: it gets the sum of this server alone.
Status check_tree_of_token(const rpc::Principal& by, rpc::Method method,
                           google::protobuf::MessageLite& request) {
  const bool has_children = method == rpc::Method::kPartialSum &&
                            !static_cast<proto::PartialSumRequest&>(request).node().children().empty();
  if (!has_children) return {};
  return {Code::kPermissionDenied, by.text() + " may not have this server ask others for their sums"};
}

}  // namespace

void RepairService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle_stream<&RepairService::partial_sum>(Method::kPartialSum, *this);
  server.handle<&RepairService::repair_chunk>(Method::kRepairChunk, *this);
  server.handle<&RepairService::end_repair>(Method::kEndRepair, *this);
  server.admit_tokens_by(check_tree_of_token);
}

Status RepairService::check_node(StripeId stripe, const proto::RepairNode& node) const {
  if (partial_sum::has_chunk(node)) {
    // Either right is enough to read: a partial sum with coefficient 1 is the chunk.
    const ChunkId own{stripe, node.index()};
    if (!judge_.check(node.capability(), own, rpc::kOpRepair).ok())
      KINTSUGI_TRY(judge_.check(node.capability(), own, rpc::kOpRead));
  }
  for (const proto::RebuiltChunk& store : node.stores())
    KINTSUGI_TRY(judge_.check_store(store.capability(), {stripe, store.index()}, node.server_id()));
  return {};
}

asio::awaitable<Status> RepairService::partial_sum(Context context, const proto::PartialSumRequest& request,
                                                   rpc::Stream& stream) {
  CountedCall call(counters_, &counters_.partial_sums, &counters_.repairs_running);
  const CountedCall for_user(counters_, nullptr, request.user() ? &counters_.users_served : nullptr);
  Status allowed = check_node(StripeId(request.stripe_id()), request.node());
  if (!allowed.ok()) co_return call.finish(std::move(allowed));
  co_return call.finish(co_await sums_.stream(context, request, stream));
}

asio::awaitable<Status> RepairService::repair_chunk(Context context, const proto::RepairChunkRequest& request,
                                                    proto::RepairChunkResponse& response) {
  CountedCall call(counters_, &counters_.repairs, &counters_.repairs_running);
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = judge_.check_store(request.capability(), id, request.server_id());
  if (!allowed.ok()) co_return call.finish(std::move(allowed));
  co_return call.finish(co_await site_.repair_chunk(context, request, response));
}

asio::awaitable<Status> RepairService::end_repair(Context, const proto::EndRepairRequest& request,
                                                  proto::Empty&) {
  CountedCall call(counters_, nullptr, nullptr);
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = judge_.check(request.capability(), id, rpc::kOpWrite);
  if (allowed.ok()) site_.end_repair(request);
  co_return call.finish(std::move(allowed));
}

}  // namespace kintsugi::chunkserver

#include "chunkserver/service/chunk_service.h"

#include "partial_sum/check_tree.h"

namespace kintsugi::chunkserver {

ChunkService::ChunkService(const runtime::Runtime& runtime, CapabilityJudge judge, ChunkStore& store,
                           runtime::BufferPool& buffers, ServiceCounters& counters, PartialSums& sums,
                           RepairSite& site)
    : judge_(judge),
      counters_(counters),
      receiver_(runtime, store, buffers, counters),
      sender_(runtime, store, buffers, counters),
      small_(runtime, store, buffers, counters),
      verifier_(runtime, store, counters),
      sums_(sums),
      site_(site) {}

void ChunkService::register_at(rpc::Server& server) {
  using rpc::Method;
  server.handle_stream<&ChunkService::write_chunk>(Method::kWriteChunk, *this);
  server.handle_stream<&ChunkService::read_chunk>(Method::kReadChunk, *this);
  server.handle<&ChunkService::write_small_chunk>(Method::kWriteSmallChunk, *this);
  server.handle<&ChunkService::read_small_chunk>(Method::kReadSmallChunk, *this);
  server.handle_stream<&ChunkService::partial_sum>(Method::kPartialSum, *this);
  server.handle<&ChunkService::repair_chunk>(Method::kRepairChunk, *this);
  server.handle<&ChunkService::end_repair>(Method::kEndRepair, *this);
  server.handle_stream<&ChunkService::verify_chunks>(Method::kVerifyChunks, *this);
  server.handle<&ChunkService::ping>(Method::kPing, *this);
}

Status ChunkService::check(const std::string& capability, ChunkId id, uint32_t operation) const {
  return rpc::check_capability(judge_.secret, capability, id, operation, judge_.clock.now());
}

/// The right to read the node's own chunk, and to write what it stores.
Status ChunkService::check_node(StripeId stripe, const proto::RepairNode& node) const {
  if (partial_sum::has_chunk(node)) {
    // Either right is enough to read: a partial sum with coefficient 1 is the chunk.
    const ChunkId own{stripe, node.index()};
    if (!check(node.capability(), own, rpc::kOpRepair).ok())
      KINTSUGI_TRY(check(node.capability(), own, rpc::kOpRead));
  }
  for (const proto::RebuiltChunk& store : node.stores())
    KINTSUGI_TRY(check(store.capability(), {stripe, store.index()}, rpc::kOpWrite));
  return {};
}

asio::awaitable<Status> ChunkService::write_chunk(Context context, const proto::WriteChunkRequest& request,
                                                  rpc::Stream& stream) {
  CountedCall call(counters_, &counters_.writes, &counters_.users_served);
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = check(request.capability(), id, rpc::kOpWrite);
  if (!allowed.ok()) co_return call.finish(std::move(allowed));
  co_return call.finish(co_await receiver_.serve(context, request, stream));
}

asio::awaitable<Status> ChunkService::read_chunk(Context context, const proto::ReadChunkRequest& request,
                                                 rpc::Stream& stream) {
  CountedCall call(counters_, &counters_.reads, request.background() ? nullptr : &counters_.users_served);
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = check(request.capability(), id, rpc::kOpRead);
  if (!allowed.ok()) co_return call.finish(std::move(allowed));
  co_return call.finish(co_await sender_.serve(context, request, stream));
}

asio::awaitable<Status> ChunkService::write_small_chunk(Context context,
                                                        const proto::WriteSmallChunkRequest& request,
                                                        proto::Empty&) {
  CountedCall call(counters_, &counters_.writes, &counters_.users_served);
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = check(request.capability(), id, rpc::kOpWrite);
  if (!allowed.ok()) co_return call.finish(std::move(allowed));
  co_return call.finish(co_await small_.write(context, request));
}

asio::awaitable<Status> ChunkService::read_small_chunk(Context context,
                                                       const proto::ReadSmallChunkRequest& request,
                                                       proto::ReadSmallChunkResponse& response) {
  CountedCall call(counters_, &counters_.reads, &counters_.users_served);
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = check(request.capability(), id, rpc::kOpRead);
  if (!allowed.ok()) co_return call.finish(std::move(allowed));
  co_return call.finish(co_await small_.read(context, request, response));
}

asio::awaitable<Status> ChunkService::partial_sum(Context context, const proto::PartialSumRequest& request,
                                                  rpc::Stream& stream) {
  CountedCall call(counters_, &counters_.partial_sums, &counters_.repairs_running);
  const CountedCall for_user(counters_, nullptr, request.user() ? &counters_.users_served : nullptr);
  Status allowed = check_node(StripeId(request.stripe_id()), request.node());
  if (!allowed.ok()) co_return call.finish(std::move(allowed));
  co_return call.finish(co_await sums_.stream(context, request, stream));
}

asio::awaitable<Status> ChunkService::repair_chunk(Context context, const proto::RepairChunkRequest& request,
                                                   proto::RepairChunkResponse& response) {
  CountedCall call(counters_, &counters_.repairs, &counters_.repairs_running);
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = check(request.capability(), id, rpc::kOpWrite);
  if (!allowed.ok()) co_return call.finish(std::move(allowed));
  co_return call.finish(co_await site_.repair_chunk(context, request, response));
}

asio::awaitable<Status> ChunkService::end_repair(Context, const proto::EndRepairRequest& request,
                                                 proto::Empty&) {
  CountedCall call(counters_, nullptr, nullptr);
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = check(request.capability(), id, rpc::kOpWrite);
  if (allowed.ok()) site_.end_repair(request);
  co_return call.finish(std::move(allowed));
}

asio::awaitable<Status> ChunkService::verify_chunks(Context context,
                                                    const proto::VerifyChunksRequest& request,
                                                    rpc::Stream& stream) {
  CountedCall call(counters_, &counters_.verifications, &counters_.verifications_running);
  for (const proto::VerifyChunksRequest::Chunk& chunk : request.chunks()) {
    Status allowed = check(chunk.capability(), {StripeId(chunk.stripe_id()), chunk.index()}, rpc::kOpRead);
    if (!allowed.ok()) co_return call.finish(std::move(allowed));
  }
  co_return call.finish(co_await verifier_.serve(context, request, stream));
}

asio::awaitable<Status> ChunkService::ping(Context, const proto::Empty&, proto::Empty&) {
  co_return Status{};
}

}  // namespace kintsugi::chunkserver

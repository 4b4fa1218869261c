#include "chunkserver/service/chunk_service.h"

namespace kintsugi::chunkserver {

ChunkService::ChunkService(const runtime::Runtime& runtime, CapabilityJudge judge, ChunkStore& store,
                           runtime::BufferPool& buffers, ServiceCounters& counters)
    : judge_(judge),
      counters_(counters),
      receiver_(runtime, store, buffers, counters),
      sender_(runtime, store, buffers, counters),
      small_(runtime, store, buffers, counters),
      verifier_(runtime, store, counters) {}

void ChunkService::register_on(rpc::Server& server) {
  using rpc::Method;
  server.handle_stream<&ChunkService::write_chunk>(Method::kWriteChunk, *this);
  server.handle_stream<&ChunkService::read_chunk>(Method::kReadChunk, *this);
  server.handle<&ChunkService::write_small_chunk>(Method::kWriteSmallChunk, *this);
  server.handle<&ChunkService::read_small_chunk>(Method::kReadSmallChunk, *this);
  server.handle_stream<&ChunkService::verify_chunks>(Method::kVerifyChunks, *this);
  server.handle<&ChunkService::ping>(Method::kPing, *this);
}

asio::awaitable<Status> ChunkService::write_chunk(Context context, const proto::WriteChunkRequest& request,
                                                  rpc::Stream& stream) {
  CountedCall call(counters_, &counters_.writes, &counters_.users_served);
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = judge_.check_store(request.capability(), id, request.server_id());
  if (!allowed.ok()) co_return call.finish(std::move(allowed));
  co_return call.finish(co_await receiver_.serve(context, request, stream));
}

asio::awaitable<Status> ChunkService::read_chunk(Context context, const proto::ReadChunkRequest& request,
                                                 rpc::Stream& stream) {
  CountedCall call(counters_, &counters_.reads, request.background() ? nullptr : &counters_.users_served);
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = judge_.check(request.capability(), id, rpc::kOpRead);
  if (!allowed.ok()) co_return call.finish(std::move(allowed));
  co_return call.finish(co_await sender_.serve(context, request, stream));
}

asio::awaitable<Status> ChunkService::write_small_chunk(Context context,
                                                        const proto::WriteSmallChunkRequest& request,
                                                        proto::Empty&) {
  CountedCall call(counters_, &counters_.writes, &counters_.users_served);
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = judge_.check_store(request.capability(), id, request.server_id());
  if (!allowed.ok()) co_return call.finish(std::move(allowed));
  co_return call.finish(co_await small_.write(context, request));
}

asio::awaitable<Status> ChunkService::read_small_chunk(Context context,
                                                       const proto::ReadSmallChunkRequest& request,
                                                       proto::ReadSmallChunkResponse& response) {
  CountedCall call(counters_, &counters_.reads, &counters_.users_served);
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = judge_.check(request.capability(), id, rpc::kOpRead);
  if (!allowed.ok()) co_return call.finish(std::move(allowed));
  co_return call.finish(co_await small_.read(context, request, response));
}

asio::awaitable<Status> ChunkService::verify_chunks(Context context,
                                                    const proto::VerifyChunksRequest& request,
                                                    rpc::Stream& stream) {
  CountedCall call(counters_, &counters_.verifications, &counters_.verifications_running);
  for (const proto::VerifyChunksRequest::Chunk& chunk : request.chunks()) {
    Status allowed =
        judge_.check(chunk.capability(), {StripeId(chunk.stripe_id()), chunk.index()}, rpc::kOpRead);
    if (!allowed.ok()) co_return call.finish(std::move(allowed));
  }
  co_return call.finish(co_await verifier_.serve(context, request, stream));
}

asio::awaitable<Status> ChunkService::ping(Context, const proto::PingRequest& request,
                                           proto::PingResponse& response) {
  response.set_padding(request.padding());
  co_return Status{};
}

}  // namespace kintsugi::chunkserver

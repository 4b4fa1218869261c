#include "client/lib/check/verify_call.h"

#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kVerifyChunks{"client.verify_chunks", {"chunks"}};

proto::VerifyChunksRequest request_for(std::span<const CheckedChunk> chunks, uint64_t bytes_per_second) {
  proto::VerifyChunksRequest request;
  request.set_bytes_per_second(bytes_per_second);
  for (const CheckedChunk& chunk : chunks) {
    proto::VerifyChunksRequest::Chunk* wanted = request.add_chunks();
    wanted->set_stripe_id(chunk.id.stripe.value);
    wanted->set_index(chunk.id.index);
    wanted->set_capability(chunk.capability);
  }
  return request;
}

/// Returns when the server has sent its end frame, after as many verdicts as were wanted.
asio::awaitable<Status> receive_all(rpc::Stream& stream, std::span<const CheckedChunk> chunks,
                                    VerdictSink& sink, VerifyEnd& end) {
  while (true) {
    proto::VerifyChunksData data;
    proto::VerifyChunksDone done;
    KINTSUGI_CO_ASSIGN(const rpc::Stream::Received frame, co_await stream.receive(data, done));
    if (frame.end) break;
    const size_t sent = end.verified + static_cast<size_t>(data.chunks_size());
    if (frame.payload_bytes != 0 || sent > chunks.size())
      co_return Status{Code::kCorrupt, "the server sent more than was asked for"};
    if (data.bytes() > 0) sink.read(data.bytes());
    for (const proto::VerifiedChunk& found : data.chunks()) {
      end.refused = co_await sink.verified(chunks[end.verified], found);
      if (!end.refused.ok()) co_return end.refused;
      ++end.verified;
    }
  }
  if (end.verified < chunks.size()) co_return Status{Code::kCorrupt, "the server left chunks out"};
  co_return co_await stream.send_end(proto::Empty::default_instance());
}

}  // namespace

asio::awaitable<VerifyEnd> verify_chunks(Resources& resources, Context context,
                                         std::span<const CheckedChunk> chunks, uint64_t bytes_per_second,
                                         VerdictSink& sink) {
  sight::Task module(context, kVerifyChunks, {static_cast<double>(chunks.size())});
  VerifyEnd end;
  const auto server = runtime::Endpoint::parse(chunks.front().address);
  if (!server) {
    end.call = module.finish(server.error());
    co_return end;
  }
  const proto::VerifyChunksRequest request = request_for(chunks, bytes_per_second);
  const Context limited = module.context().with_deadline(resources.now() + kStreamLimit);
  auto stream = co_await resources.rpc.open_stream(limited, *server, rpc::Method::kVerifyChunks, request);
  end.call = stream ? co_await receive_all(**stream, chunks, sink, end) : stream.error();
  if (end.call.ok()) resources.rpc.finish(*server, std::move(*stream));
  end.call = module.finish(std::move(end.call));
  co_return end;
}

}  // namespace kintsugi::client

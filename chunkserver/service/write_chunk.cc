#include "chunkserver/service/write_chunk.h"

#include "chunkserver/service/chunk_policy.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kWriteChunk{
    "chunkserver.write_chunk", {"max_bytes"}, {"bytes", "receive_seconds", "commit_seconds"}};

/// A frame whose payload stands still keeps its buffer for long only while there are plenty: when fewer than one buffer
/// in kScarceShare is free, it must continue.
constexpr size_t kScarceShare = 4;
constexpr Duration kScarceIdleLimit = 5s;
constexpr size_t kScarcePartBytes = 64 << 10;  ///< a client must send so much within that time

}  // namespace

struct WriteChunkHandler::Times {
  double receive_seconds = 0, commit_seconds = 0;
};

asio::awaitable<Status> WriteChunkHandler::receive_payload(std::span<std::byte> into, rpc::Stream& stream) {
  const size_t count = buffers_.region().size() / buffers_.buffer_bytes();
  if (buffers_.free() >= count / kScarceShare) co_return co_await stream.receive_payload(into);
  while (!into.empty()) {
    const size_t part = std::min(into.size(), kScarcePartBytes);
    KINTSUGI_CO_TRY(co_await stream.receive_payload(into.first(part), kScarceIdleLimit));
    into = into.subspan(part);
  }
  co_return Status{};
}

asio::awaitable<Status> WriteChunkHandler::take_frame(Context context, ChunkWriter& writer,
                                                      const proto::WriteChunkData& data,
                                                      uint32_t payload_bytes, rpc::Stream& stream) {
  if (data.offset() != writer.length()) {
    co_return Status{Code::kInvalidArgument,
                     fmt::format("data of offset {} after {} bytes", data.offset(), writer.length())};
  }
  if (payload_bytes == 0 || payload_bytes > buffers_.buffer_bytes()) {
    co_return Status{Code::kInvalidArgument, fmt::format("a frame of {} bytes; between 1 and {} are possible",
                                                         payload_bytes, buffers_.buffer_bytes())};
  }
  KINTSUGI_CO_ASSIGN(runtime::Buffer buffer, co_await acquire_buffer(context, buffers_, writer.disk()));
  KINTSUGI_CO_TRY(co_await receive_payload(buffer.first(payload_bytes), stream));
  counters_.bytes_written += payload_bytes;
  counters_.add_user_bytes(payload_bytes, clock_.now());
  std::vector<uint32_t> crcs(data.block_crcs().begin(), data.block_crcs().end());
  co_return co_await writer.append(context, std::move(buffer), payload_bytes, std::move(crcs));
}

asio::awaitable<Result<ChunkInfo>> WriteChunkHandler::receive(Context context, ChunkWriter& writer,
                                                              rpc::Stream& stream, Times& times) {
  const TimePoint began = clock_.now();
  while (true) {
    proto::WriteChunkData data;
    proto::WriteChunkSeal seal;
    KINTSUGI_CO_ASSIGN(rpc::Stream::Received frame, co_await stream.receive(data, seal));
    if (!frame.end) {
      KINTSUGI_CO_TRY(co_await take_frame(context, writer, data, frame.payload_bytes, stream));
      continue;
    }
    const TimePoint sealed = clock_.now();
    times.receive_seconds = to_seconds(sealed - began);
    auto committed = co_await writer.commit(context, seal.length(), seal.crc());
    times.commit_seconds = to_seconds(clock_.now() - sealed);
    co_return committed;
  }
}

asio::awaitable<Status> WriteChunkHandler::serve(Context context, const proto::WriteChunkRequest& request,
                                                 rpc::Stream& stream) {
  sight::Module module{context, kWriteChunk, {double(request.max_bytes())}};
  Status checked = check_policy(request.policy(), request.index());
  if (!checked.ok()) co_return module.finish(std::move(checked));
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status late = store_.check_not_removed(id);
  if (!late.ok()) co_return module.finish(std::move(late));
  auto writer = co_await store_.create(module.context(), id, request.policy(), request.max_bytes());
  if (!writer) co_return module.finish(writer.error());
  Times times;
  auto chunk = co_await receive(module.context(), **writer, stream, times);
  co_await (*writer)->abort();  // nothing to do after a commit
  module.output(1, times.receive_seconds);
  module.output(2, times.commit_seconds);
  if (!chunk) co_return module.finish(chunk.error());
  module.output(0, double(chunk->length));
  proto::WriteChunkDone done;
  done.set_length(chunk->length);
  done.set_crc(chunk->crc);
  done.mutable_timing()->set_network_seconds(times.receive_seconds);
  done.mutable_timing()->set_write_seconds(times.commit_seconds);
  done.mutable_timing()->set_seconds(times.receive_seconds + times.commit_seconds);
  done.mutable_timing()->set_bytes_in(chunk->length);
  co_return module.finish(co_await stream.send_end(done));
}

}  // namespace kintsugi::chunkserver

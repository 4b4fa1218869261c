#include "chunkserver/service/read_chunk.h"

#include "common/runtime/event.h"
#include "common/runtime/task_group.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kReadChunk{"chunkserver.read_chunk", {"bytes"}, {"open_seconds"}};
constexpr uint64_t kDefaultFrameBytes = 1 << 20;
/// Frames that wait to be sent; another one is being read and one is being sent.
constexpr size_t kReadAheadFrames = 1;

struct Frame {
  runtime::Buffer buffer;
  ChunkReader::Blocks blocks;
  uint64_t offset = 0;
};

/// The blocks [next, end) of a chunk, a frame at a time.
struct Reading {
  ServiceParts& parts;
  Context context;
  ChunkReader& chunk;
  uint64_t next, end;
  uint64_t frame_blocks;

  bool done() const { return next >= end; }

  asio::awaitable<Result<Frame>> read_frame() {
    const TimePoint limit = context.with_deadline(parts.runtime.clock.now() + kBufferWaitLimit).deadline;
    Frame frame;
    KINTSUGI_CO_ASSIGN(frame.buffer, co_await parts.buffers.acquire(limit));
    frame.offset = next * kBlockBytes;
    const uint64_t count = std::min(frame_blocks, end - next);
    KINTSUGI_CO_ASSIGN(frame.blocks, co_await chunk.read_blocks(context, next, count, frame.buffer));
    next += count;
    co_return frame;
  }
};

asio::awaitable<Status> send_frame(ServiceParts& parts, const Frame& frame, bool background,
                                   rpc::Stream& stream) {
  proto::ReadChunkData data;
  data.set_offset(frame.offset);
  data.mutable_block_crcs()->Add(frame.blocks.block_crcs.begin(), frame.blocks.block_crcs.end());
  const asio::const_buffer payload(frame.blocks.data.data(), frame.blocks.data.size());
  Status sent = co_await stream.send(data, std::span(&payload, 1));
  if (sent.ok()) {
    parts.counters.bytes_read += payload.size();
    if (!background) parts.counters.add_user_bytes(payload.size(), parts.runtime.clock.now());
  }
  co_return sent;
}

asio::awaitable<void> read_ahead(Reading& reading, runtime::Channel<Frame>& frames) {
  Status status;
  while (status.ok() && !reading.done()) {
    auto frame = co_await reading.read_frame();
    if (!frame) {
      status = frame.error();
    } else {
      status = co_await frames.push(std::move(*frame));
    }
  }
  frames.close(std::move(status));
}

asio::awaitable<Status> send_frames(ServiceParts& parts, uint64_t count, runtime::Channel<Frame>& frames,
                                    bool background, rpc::Stream& stream) {
  for (uint64_t i = 0; i < count; ++i) {
    auto frame = co_await frames.pop();
    if (!frame) co_return frame.error();
    KINTSUGI_CO_TRY(co_await send_frame(parts, *frame, background, stream));
  }
  co_return Status{};
}

asio::awaitable<Status> send_blocks(ServiceParts& parts, Reading& reading, bool background,
                                    rpc::Stream& stream) {
  const uint64_t count = (reading.end - reading.next + reading.frame_blocks - 1) / reading.frame_blocks;
  if (count <= 1) {
    if (reading.done()) co_return Status{};
    auto frame = co_await reading.read_frame();
    if (!frame) co_return frame.error();
    co_return co_await send_frame(parts, *frame, background, stream);
  }
  runtime::Channel<Frame> frames(parts.runtime, kReadAheadFrames);
  runtime::TaskGroup reader(parts.runtime);
  reader.spawn(read_ahead(reading, frames));
  Status status = co_await send_frames(parts, count, frames, background, stream);
  frames.close({Code::kCancelled, "the reader left"});
  co_await reader.join();
  co_return status;
}

Result<uint64_t> frame_blocks_of(const proto::ReadChunkRequest& request, const runtime::BufferPool& buffers) {
  if (request.frame_bytes() % kBlockBytes != 0) {
    return Status{Code::kInvalidArgument,
                  fmt::format("frames of {} bytes are not whole blocks", request.frame_bytes())};
  }
  uint64_t bytes = request.frame_bytes() == 0 ? kDefaultFrameBytes : request.frame_bytes();
  return std::min<uint64_t>(bytes, buffers.buffer_bytes()) / kBlockBytes;
}

}  // namespace

asio::awaitable<Status> serve_read_chunk(Context context, ServiceParts& parts,
                                         const proto::ReadChunkRequest& request, rpc::Stream& stream) {
  sight::Module module{context, kReadChunk, {double(request.length())}};
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  Status allowed = rpc::check_capability(parts.secret, request.capability(), id, rpc::kOpRead,
                                         parts.runtime.clock.wall_now());
  if (!allowed.ok()) co_return module.finish(std::move(allowed));
  auto frame_blocks = frame_blocks_of(request, parts.buffers);
  if (!frame_blocks) co_return module.finish(frame_blocks.error());
  const TimePoint began = parts.runtime.clock.now();
  const ReadFor purpose = request.background() ? ReadFor::kBackground : ReadFor::kUser;
  auto chunk = co_await parts.store.open(module.context(), id, purpose);
  if (!chunk) co_return module.finish(chunk.error());
  module.output(0, to_seconds(parts.runtime.clock.now() - began));
  const uint64_t chunk_length = (*chunk)->length();
  if (request.offset() > chunk_length) {
    co_return module.finish({Code::kInvalidArgument, fmt::format("chunk {} has {} bytes, no offset {}", id,
                                                                 chunk_length, request.offset())});
  }
  const uint64_t length = std::min(request.length(), chunk_length - request.offset());
  const uint64_t first = request.offset() / kBlockBytes;
  const uint64_t end = length == 0 ? first : blocks_of(request.offset() + length);
  Reading reading{parts, module.context(), **chunk, first, end, *frame_blocks};
  Status status = co_await send_blocks(parts, reading, request.background(), stream);
  if (!status.ok()) co_return module.finish(std::move(status));
  proto::ReadChunkDone done;
  done.set_chunk_length(chunk_length);
  co_return module.finish(co_await stream.send_end(done));
}

}  // namespace kintsugi::chunkserver

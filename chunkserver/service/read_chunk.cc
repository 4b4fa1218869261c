#include "chunkserver/service/read_chunk.h"

#include "common/base/math.h"
#include "common/runtime/fault_points.h"
#include "common/runtime/task_group.h"
#include "monitoring/sight/module.h"

namespace kintsugi::chunkserver {
namespace {

constexpr sight::Site kReadAhead{"chunkserver.read_ahead", {"blocks"}};
constexpr sight::Site kReadChunk{"chunkserver.read_chunk", {"bytes"}, {"open_seconds"}};
constexpr uint64_t kDefaultFrameBytes = 1 << 20;
/// Frames that wait to be sent, while another one is being read and one is being sent.
constexpr size_t kReadAheadFrames = 1;

}  // namespace

struct ReadChunkHandler::Frame {
  std::shared_ptr<runtime::Buffer> buffer;
  ChunkReader::Blocks blocks;
  uint64_t offset = 0;
};

/// The blocks [next, end) of a chunk, a frame at a time.
struct ReadChunkHandler::Reading {
  Context context;
  ChunkReader& chunk;
  uint64_t next, end;
  uint64_t frame_blocks;
  bool background;

  bool done() const { return next >= end; }
};

asio::awaitable<Result<ReadChunkHandler::Frame>> ReadChunkHandler::read_frame(Reading& reading) {
  Frame frame;
  KINTSUGI_CO_ASSIGN(runtime::Buffer buffer,
                     co_await acquire_buffer(reading.context, buffers_, reading.chunk.disk()));
  frame.buffer = std::make_shared<runtime::Buffer>(std::move(buffer));
  frame.offset = reading.next * kBlockBytes;
  const uint64_t count = std::min(reading.frame_blocks, reading.end - reading.next);
  KINTSUGI_CO_ASSIGN(frame.blocks,
                     co_await reading.chunk.read_blocks(reading.context, reading.next, count, frame.buffer));
  reading.next += count;
  co_return frame;
}

asio::awaitable<Status> ReadChunkHandler::send_frame(const Frame& frame, bool background,
                                                     rpc::Stream& stream) {
  proto::ReadChunkData data;
  data.set_offset(frame.offset);
  data.mutable_block_crcs()->Add(frame.blocks.block_crcs.begin(), frame.blocks.block_crcs.end());
  const asio::const_buffer payload(frame.blocks.data.data(), frame.blocks.data.size());
  if (runtime::is_armed(runtime_.faults)) {
    const auto fault = co_await runtime_.faults->pass(runtime::FaultPoint::kSendChunk, stream.peer());
    if (!fault.status.ok()) co_return fault.status;
    if (fault.drop) co_return Status{};
    if (fault.repeat) KINTSUGI_CO_TRY(co_await stream.send(data, std::span(&payload, 1)));
    if (fault.corrupt) data.set_block_crcs(0, data.block_crcs(0) ^ 1);
  }
  Status sent = co_await stream.send(data, std::span(&payload, 1));
  if (sent.ok()) {
    counters_.bytes_read += payload.size();
    if (!background) counters_.add_user_bytes(payload.size(), runtime_.clock.now());
  }
  co_return sent;
}

asio::awaitable<void> ReadChunkHandler::read_ahead(Reading& reading, runtime::Channel<Frame>& frames) {
  const uint64_t sender = reading.context.trace.span_id;
  const sight::Task task{reading.context, kReadAhead, {double(reading.end - reading.next)}};
  reading.context = task.context();
  Status status;
  while (status.ok() && !reading.done()) {
    auto frame = co_await read_frame(reading);
    if (!frame) {
      status = frame.error();
    } else {
      const sight::Wait wait(task.context(), sight::WaitKind::kSibling, 0, sender);
      // Here as if the sender had to continue first, which waits for what was read.
      if (runtime::is_armed(runtime_.faults))
        (void)co_await runtime_.faults->pass(runtime::FaultPoint::kDeadlock, "read");
      status = co_await frames.push(std::move(*frame));
    }
  }
  frames.close(std::move(status));
}

asio::awaitable<Status> ReadChunkHandler::send_frames(Context context, uint64_t count,
                                                      runtime::Channel<Frame>& frames, bool background,
                                                      rpc::Stream& stream) {
  for (uint64_t i = 0; i < count; ++i) {
    sight::Wait wait(context, sight::WaitKind::kJoin);
    auto frame = co_await frames.pop();
    wait.stop();
    if (!frame) co_return frame.error();
    KINTSUGI_CO_TRY(co_await send_frame(*frame, background, stream));
  }
  co_return Status{};
}

asio::awaitable<Status> ReadChunkHandler::send_blocks(Reading& reading, rpc::Stream& stream) {
  const uint64_t count = divide_up(reading.end - reading.next, reading.frame_blocks);
  // One frame needs no task that reads ahead.
  if (count <= 1) {
    if (reading.done()) co_return Status{};
    auto frame = co_await read_frame(reading);
    if (!frame) co_return frame.error();
    co_return co_await send_frame(*frame, reading.background, stream);
  }
  runtime::Channel<Frame> frames(runtime_, kReadAheadFrames);
  runtime::TaskGroup reader(runtime_);
  const Context context = reading.context;
  reader.spawn(read_ahead(reading, frames));
  Status status = co_await send_frames(context, count, frames, reading.background, stream);
  frames.close({Code::kCancelled, "the reader left"});
  const sight::Wait wait(context, sight::WaitKind::kJoin);
  co_await reader.join();
  co_return status;
}

Result<uint64_t> ReadChunkHandler::frame_blocks_of(const proto::ReadChunkRequest& request) const {
  if (request.frame_bytes() % kBlockBytes != 0) {
    return Status{Code::kInvalidArgument,
                  fmt::format("frames of {} bytes are not whole blocks", request.frame_bytes())};
  }
  const uint64_t bytes = request.frame_bytes() == 0 ? kDefaultFrameBytes : request.frame_bytes();
  return std::min<uint64_t>(bytes, buffers_.buffer_bytes()) / kBlockBytes;
}

asio::awaitable<Status> ReadChunkHandler::serve(Context context, const proto::ReadChunkRequest& request,
                                                rpc::Stream& stream) {
  sight::Module module{context, kReadChunk, {double(request.length())}};
  const ChunkId id{StripeId(request.stripe_id()), request.index()};
  auto frame_blocks = frame_blocks_of(request);
  if (!frame_blocks) co_return module.finish(frame_blocks.error());
  const TimePoint began = runtime_.clock.now();
  const ReadFor purpose = request.background() ? ReadFor::kBackground : ReadFor::kUser;
  auto chunk = co_await store_.open(module.context(), id, purpose);
  if (!chunk) co_return module.finish(chunk.error());
  module.output(0, to_seconds(runtime_.clock.now() - began));
  const uint64_t chunk_length = (*chunk)->length();
  if (request.offset() > chunk_length) {
    co_return module.finish({Code::kInvalidArgument, fmt::format("chunk {} has {} bytes, no offset {}", id,
                                                                 chunk_length, request.offset())});
  }
  const uint64_t length = std::min(request.length(), chunk_length - request.offset());
  const uint64_t first = request.offset() / kBlockBytes;
  const uint64_t end = length == 0 ? first : blocks_of(request.offset() + length);
  Reading reading{module.context(), **chunk, first, end, *frame_blocks, request.background()};
  Status status = co_await send_blocks(reading, stream);
  if (!status.ok()) co_return module.finish(std::move(status));
  proto::ReadChunkDone done;
  done.set_chunk_length(chunk_length);
  co_return module.finish(co_await stream.send_end(done));
}

}  // namespace kintsugi::chunkserver

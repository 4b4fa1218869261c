/// The ReadChunk RPC, once the caller's right is proven.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/service/counters.h"
#include "chunkserver/store/chunk_store.h"
#include "common/proto/chunk.pb.h"
#include "common/rpc/stream.h"
#include "common/runtime/buffer_pool.h"
#include "common/runtime/event.h"

namespace kintsugi::chunkserver {

class ReadChunkHandler {
 public:
  /// References outlive every call.
  ReadChunkHandler(const runtime::Runtime& runtime, ChunkStore& store, runtime::BufferPool& buffers,
                   ServiceCounters& counters)
      : runtime_(runtime), store_(store), buffers_(buffers), counters_(counters) {}

  /// Sends whole blocks from pool buffers, as they came from the disk, while the next ones are read. A range that
  /// begins beyond the chunk is kInvalidArgument; one that ends beyond it is cut.
  asio::awaitable<Status> serve(Context context, const proto::ReadChunkRequest& request, rpc::Stream& stream);

 private:
  struct Frame;
  struct Reading;

  Result<uint64_t> frame_blocks_of(const proto::ReadChunkRequest& request) const;
  asio::awaitable<Status> send_blocks(Reading& reading, rpc::Stream& stream);
  asio::awaitable<Status> send_frames(Context context, uint64_t count, runtime::Channel<Frame>& frames,
                                      bool background, rpc::Stream& stream);
  asio::awaitable<Status> send_frame(const Frame& frame, bool background, rpc::Stream& stream);
  asio::awaitable<Result<Frame>> read_frame(Reading& reading);
  asio::awaitable<void> read_ahead(Reading& reading, runtime::Channel<Frame>& frames);

  const runtime::Runtime& runtime_;
  ChunkStore& store_;
  runtime::BufferPool& buffers_;
  ServiceCounters& counters_;
};

}  // namespace kintsugi::chunkserver

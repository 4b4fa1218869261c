/// The WriteChunk RPC, once the caller's right is proven.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/service/counters.h"
#include "chunkserver/store/chunk_store.h"
#include "common/proto/chunk.pb.h"
#include "common/rpc/stream.h"
#include "common/runtime/buffer_pool.h"

namespace kintsugi::chunkserver {

class WriteChunkHandler {
 public:
  /// References outlive every call.
  WriteChunkHandler(const runtime::Runtime& runtime, ChunkStore& store, runtime::BufferPool& buffers,
                    ServiceCounters& counters)
      : clock_(runtime.clock), store_(store), buffers_(buffers), counters_(counters) {}

  /// Receives a chunk frame by frame into pool buffers, checks its blocks, and writes them while the next frame comes
  /// in. The answer is sent once the chunk is durable; after an error nothing of it is left. kInvalidArgument: the
  /// policy, or frames that do not fit together; kCorrupt, kAlreadyExists, kNoSpace and others of ChunkWriter.
  asio::awaitable<Status> serve(Context context, const proto::WriteChunkRequest& request,
                                rpc::Stream& stream);

 private:
  struct Times;

  asio::awaitable<Result<ChunkInfo>> receive(Context context, ChunkWriter& writer, rpc::Stream& stream,
                                             Times& times);
  asio::awaitable<Status> take_frame(Context context, ChunkWriter& writer, const proto::WriteChunkData& data,
                                     uint32_t payload_bytes, rpc::Stream& stream);
  asio::awaitable<Status> receive_payload(std::span<std::byte> into, rpc::Stream& stream);

  const runtime::Clock& clock_;
  ChunkStore& store_;
  runtime::BufferPool& buffers_;
  ServiceCounters& counters_;
};

}  // namespace kintsugi::chunkserver

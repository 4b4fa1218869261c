/// The RPCs WriteSmallChunk and ReadSmallChunk, once the caller's right is proven: chunks of one block, whole, without
/// a stream.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/service/counters.h"
#include "chunkserver/store/chunk_store.h"
#include "common/proto/chunk.pb.h"
#include "common/runtime/buffer_pool.h"

namespace kintsugi::chunkserver {

class SmallChunks {
 public:
  /// References outlive every call.
  SmallChunks(const runtime::Runtime& runtime, ChunkStore& store, runtime::BufferPool& buffers,
              ServiceCounters& counters)
      : clock_(runtime.clock), store_(store), buffers_(buffers), counters_(counters) {}

  /// The chunk is durable on return; after an error nothing of it is left. kInvalidArgument: the policy, or no data,
  /// or more than a block; kCorrupt: the data has another CRC; kAlreadyExists, kNoSpace and others of
  /// ChunkStore::put_small.
  asio::awaitable<Status> write(Context context, const proto::WriteSmallChunkRequest& request);
  /// kInvalidArgument: the chunk is longer than a block, or empty; errors of ChunkStore::open and ChunkReader.
  asio::awaitable<Status> read(Context context, const proto::ReadSmallChunkRequest& request,
                               proto::ReadSmallChunkResponse& response);

 private:
  void count(uint64_t& total, uint64_t bytes);

  runtime::Clock& clock_;
  ChunkStore& store_;
  runtime::BufferPool& buffers_;
  ServiceCounters& counters_;
};

}  // namespace kintsugi::chunkserver

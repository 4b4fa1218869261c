/// The RPCs WriteSmallChunk (a chunk of at most one block, whole) and ReadSmallChunk (such a chunk, or at most
/// kBlockBytes of any chunk), without a stream. The caller's right is proven before.
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

  /// Writes a chunk: it is durable on return; after an error nothing of it is left. kInvalidArgument: the policy, or no
  /// data, or more than a block; kCorrupt: the data has another CRC; kAlreadyExists, kNoSpace and others of
  /// ChunkStore::put_small.
  asio::awaitable<Status> write(Context context, const proto::WriteSmallChunkRequest& request);
  /// Reads a chunk, or a range of one. kInvalidArgument: the range is empty, longer than a block, or not in the chunk;
  /// or the whole of a longer chunk was asked for. Errors of ChunkStore::open and ChunkReader.
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

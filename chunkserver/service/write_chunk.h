/// The WriteChunk RPC.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/service/service_parts.h"
#include "common/proto/chunk.pb.h"
#include "common/rpc/stream.h"

namespace kintsugi::chunkserver {

/// Receives a chunk frame by frame into pool buffers, checks its blocks, and writes them while the next frame
/// comes in. The answer is sent once the chunk is durable; after an error nothing of it is left.
asio::awaitable<Status> serve_write_chunk(Context context, ServiceParts& parts,
                                          const proto::WriteChunkRequest& request, rpc::Stream& stream);

}  // namespace kintsugi::chunkserver

/// The ReadChunk RPC.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "chunkserver/service/service_parts.h"
#include "common/proto/chunk.pb.h"
#include "common/rpc/stream.h"

namespace kintsugi::chunkserver {

/// Sends whole blocks from pool buffers, as they came from the disk, while the next ones are read.
/// A range that begins beyond the chunk is kInvalidArgument; one that ends beyond it is cut.
asio::awaitable<Status> serve_read_chunk(Context context, ServiceParts& parts,
                                         const proto::ReadChunkRequest& request, rpc::Stream& stream);

}  // namespace kintsugi::chunkserver

/// Maps each RPC of a chunkserver to one function.
#pragma once

#include "chunkserver/service/service_parts.h"
#include "common/rpc/server.h"

namespace kintsugi::chunkserver {

/// WriteChunk, ReadChunk, PartialSum, RepairChunk and Ping. `parts` outlives the server's calls.
void register_chunk_service(rpc::Server& server, ServiceParts& parts);

}  // namespace kintsugi::chunkserver

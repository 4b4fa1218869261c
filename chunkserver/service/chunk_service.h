/// Maps each RPC of a chunkserver to one function.
#pragma once

#include "chunkserver/service/link_probe.h"
#include "chunkserver/service/service_parts.h"
#include "common/rpc/server.h"

namespace kintsugi::chunkserver {

/// WriteChunk, ReadChunk, PartialSum, RepairChunk, ProbeLink and Ping. `parts` and `prober` outlive the
/// server's calls.
void register_chunk_service(rpc::Server& server, ServiceParts& parts, LinkProber& prober);

}  // namespace kintsugi::chunkserver

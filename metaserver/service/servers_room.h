/// Room on the disks of the chunkservers.
#pragma once

#include "common/proto/sight.pb.h"
#include "metaserver/cluster/capacity.h"
#include "metaserver/service/server_parts.h"

namespace kintsugi::metaserver {

/// Servers that are dead do not count.
Capacity capacity_now(const ServerRegistry& servers, const erasure::Policy& policy);
/// `chunk_bytes`: size of a new chunk. Room::full: there are servers enough for a stripe of the policy, but too few of
/// them have room for a chunk.
proto::Room servers_room(const ServerParts& parts, const erasure::Policy& policy, uint64_t chunk_bytes);

}  // namespace kintsugi::metaserver

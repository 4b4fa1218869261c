/// Room on the disks of the chunkservers.
#pragma once

#include "common/proto/sight.pb.h"
#include "metaserver/cluster/capacity.h"
#include "metaserver/service/meta_state.h"

namespace kintsugi::metaserver {

/// Servers that are dead do not count.
Capacity capacity_now(const MetaState& state, const erasure::Policy& policy);
/// Room::full: there are servers enough for a stripe of the policy, but too few of them have room for a chunk.
proto::Room servers_room(const MetaState& state, const erasure::Policy& policy);

}  // namespace kintsugi::metaserver

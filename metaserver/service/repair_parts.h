/// What repair managers are asked to do beside repairs, and who tells them.
#pragma once

#include "common/runtime/clock.h"
#include "metaserver/chunks/chunk_map.h"
#include "metaserver/repair/compactions.h"
#include "metaserver/repair/rebalancer.h"
#include "metaserver/service/repair_host.h"
#include "metaserver/service/server_parts.h"

namespace kintsugi::metaserver {

struct RepairParts {
  /// References outlive it.
  RepairParts(const runtime::Clock& clock, const ServerParts& servers, const ChunkMap& chunks)
      : compactions(clock), rebalancer(servers.registry, chunks, servers.slow, clock) {}

  Compactions compactions;
  Rebalancer rebalancer;
  RepairHostSlot host;
};

}  // namespace kintsugi::metaserver

/// The servers of the cluster: who they are and which of them live, what they have cached, and whom others avoid.
#pragma once

#include <vector>

#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "metaserver/chunks/cache_map.h"
#include "metaserver/cluster/options.h"
#include "metaserver/cluster/placement.h"
#include "metaserver/cluster/repair_limit.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/cluster/slow_servers.h"

namespace kintsugi::metaserver {

struct ServerParts {
  /// References outlive it.
  ServerParts(const runtime::Runtime& runtime, const MetaServerOptions& options)
      : registry(options, runtime.clock),
        slow(registry, runtime.clock),
        caches(runtime.clock),
        changed(runtime) {}

  /// Servers that take new chunks: alive, not being drained, not in `exclude`, with room for `chunk_bytes`.
  /// Those that are slow or in maintenance are marked: others are preferred.
  UsableServers usable_servers(const std::vector<ServerId>& exclude, uint64_t chunk_bytes) const;

  ServerRegistry registry;
  SlowServers slow;
  CacheMap caches;
  RepairLimit repair_limit;
  /// Notified when one registers or dies, and when the metaserver is stopped.
  runtime::Event changed;
};

}  // namespace kintsugi::metaserver

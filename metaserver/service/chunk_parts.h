/// The chunks on the servers: which can be read, what block reports are compared with, and which are deleted, unless
/// this metadata is in doubt.
#pragma once

#include "common/runtime/runtime.h"
#include "metaserver/chunks/block_reports.h"
#include "metaserver/chunks/chunk_map.h"
#include "metaserver/chunks/garbage.h"
#include "metaserver/chunks/history.h"
#include "metaserver/chunks/quarantine.h"
#include "metaserver/cluster/options.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/kv/key_value_store.h"
#include "metaserver/repair/stripe_health.h"
#include "metaserver/service/new_stripes.h"

namespace kintsugi::metaserver {

struct ChunkParts {
  /// References outlive it.
  ChunkParts(const runtime::Runtime& runtime, const MetaServerOptions& options, KeyValueStore& store,
             ServerRegistry& servers, const NewStripes& new_stripes)
      : map(servers, runtime.clock),
        health(map),
        garbage(map, runtime.clock),
        history(runtime, options, store, new_stripes.ids, servers),
        quarantine(options, runtime.clock),
        block_reports({servers, map, garbage, new_stripes.allocations, history, quarantine}, runtime.clock) {}

  ChunkMap map;
  StripeHealth health;
  Garbage garbage;
  History history;
  Quarantine quarantine;
  BlockReports block_reports;
};

}  // namespace kintsugi::metaserver

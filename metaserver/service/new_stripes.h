/// Stripes that do not exist yet: their ids, and what clients were allowed to write of them.
#pragma once

#include "common/rpc/secret.h"
#include "common/runtime/runtime.h"
#include "metaserver/chunks/allocations.h"
#include "metaserver/cluster/options.h"
#include "metaserver/kv/key_value_store.h"
#include "metaserver/schema/id_allocator.h"

namespace kintsugi::metaserver {

struct NewStripes {
  /// References outlive it.
  NewStripes(const runtime::Runtime& runtime, const MetaServerOptions& options, const rpc::Secret& secret,
             KeyValueStore& store)
      : ids(runtime, store, "stripe"), allocations(options, secret, runtime.clock) {}

  IdAllocator ids;
  Allocations allocations;
};

}  // namespace kintsugi::metaserver

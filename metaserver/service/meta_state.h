/// The state of a metaserver: its parts, put together once. A service takes those that it uses.
#pragma once

#include <utility>

#include "metaserver/service/chunk_parts.h"
#include "metaserver/service/lease_grants.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/service/new_stripes.h"
#include "metaserver/service/repair_parts.h"
#include "metaserver/service/server_parts.h"
#include "metaserver/service/stripe_describer.h"
#include "metaserver/service/write_parts.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

struct MetaState {
  /// References outlive it.
  MetaState(const runtime::Runtime& runtime, MetaServerOptions options_, rpc::Secret secret_,
            KeyValueStore& kv)
      : options(std::move(options_)),
        secret(std::move(secret_)),
        clients(runtime, kv),
        servers(runtime, options),
        new_stripes(runtime, options, secret, kv),
        chunks(runtime, options, kv, servers.registry, new_stripes),
        repairs(runtime.clock, servers, chunks.map),
        writes(runtime.clock, options, new_stripes, chunks, repairs.host),
        describer(secret, chunks.map, runtime.clock),
        names(runtime, options, kv, clients),
        store(runtime, options, kv,
              {names, servers.registry, chunks.map, chunks.garbage, repairs.host, clients}),
        lease_grants(runtime.clock, kv, store.room, servers.registry, clients) {}

  const MetaServerOptions options;
  const rpc::Secret secret;
  Clients clients;
  ServerParts servers;
  NewStripes new_stripes;
  ChunkParts chunks;
  RepairParts repairs;
  WriteParts writes;
  StripeDescriber describer;
  NamespaceParts names;
  MetaStore store;
  LeaseGrants lease_grants;
};

}  // namespace kintsugi::metaserver

/// The state of a metaserver: its four parts, put together once. A service takes those that it uses.
#pragma once

#include <utility>

#include "metaserver/service/cluster_parts.h"
#include "metaserver/service/lease_grants.h"
#include "metaserver/service/meta_store.h"
#include "metaserver/service/namespace_parts.h"
#include "metaserver/sessions/clients.h"

namespace kintsugi::metaserver {

struct MetaState {
  /// References outlive it.
  MetaState(const runtime::Runtime& runtime, MetaServerOptions options_, rpc::Secret secret,
            KeyValueStore& kv)
      : options(std::move(options_)),
        clients(runtime, kv),
        cluster(runtime, options, secret, kv),
        names(runtime, options, kv, clients),
        store(runtime, options, kv, names, cluster, clients),
        lease_grants(runtime.clock, kv, store.room, cluster.servers, clients) {}

  const MetaServerOptions options;
  Clients clients;
  ClusterParts cluster;
  NamespaceParts names;
  MetaStore store;
  LeaseGrants lease_grants;
};

}  // namespace kintsugi::metaserver

/// The servers of the cluster and the chunks on them, as the metaserver knows them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/rpc/secret.h"
#include "common/runtime/event.h"
#include "common/runtime/runtime.h"
#include "metaserver/chunks/allocations.h"
#include "metaserver/chunks/block_reports.h"
#include "metaserver/chunks/cache_map.h"
#include "metaserver/chunks/chunk_map.h"
#include "metaserver/chunks/garbage.h"
#include "metaserver/chunks/history.h"
#include "metaserver/chunks/quarantine.h"
#include "metaserver/chunks/uploads.h"
#include "metaserver/cluster/options.h"
#include "metaserver/cluster/placement.h"
#include "metaserver/cluster/server_registry.h"
#include "metaserver/cluster/slow_servers.h"
#include "metaserver/kv/key_value_store.h"
#include "metaserver/repair/compactions.h"
#include "metaserver/repair/rebalancer.h"
#include "metaserver/repair/stripe_health.h"
#include "metaserver/schema/id_allocator.h"
#include "metaserver/schema/stripes.h"
#include "metaserver/service/repair_host.h"

namespace kintsugi::metaserver {

inline constexpr Duration kReadCapabilityLife = 1h;

struct ClusterParts {
  /// References outlive it.
  ClusterParts(const runtime::Runtime& runtime, const MetaServerOptions& options, rpc::Secret secret,
               KeyValueStore& store);

  /// The chunk is where the stripe says and cannot be read: it counts as lost, and the host is told if that is new.
  /// `proven`: see ChunkMap::set_lost. False: that server is not its place (any more), and nothing happened.
  bool report_lost(ChunkId chunk, ServerId server, const std::string& why, bool proven);

  bool holds_chunks(ServerId server) const;  ///< whether the server is the place of at least one chunk
  /// The chunks whose place is this server, or which are nowhere (server 0), in order, after `after`, until `visit`
  /// returns false. There may be millions.
  void scan_chunks_of(ServerId server, ChunkId after, const std::function<bool(ChunkId)>& visit) const;

  proto::ServerState state_of(const ServerRecord& server) const;
  /// Counts stripes that lack chunks, and names the servers that have yet to say which chunks they have.
  proto::StripeHealth stripe_health() const;
  std::vector<proto::ServerName> servers_not_reported() const;
  std::string address_of(ServerId server) const;  ///< empty when it is dead or unknown
  /// Servers that take new chunks: alive, not being drained, not in `exclude`, with room for `chunk_bytes`.
  UsableServers usable_servers(const std::vector<ServerId>& exclude, uint64_t chunk_bytes) const;

  /// A stripe as clients see it, with capabilities for `operations` that live for `life`.
  proto::Stripe describe(StripeId id, const proto::StoredStripe& stored, uint32_t operations,
                         Duration life) const;

  IdAllocator stripe_ids;
  ServerRegistry servers;
  SlowServers slow;
  CacheMap caches;
  ChunkMap chunks;
  StripeHealth health;
  Garbage garbage;
  History history;
  Quarantine quarantine;
  Allocations allocations;
  Uploads uploads;
  BlockReports block_reports;
  Compactions compactions;
  Rebalancer rebalancer;
  RepairHost nobody;
  RepairHost* host = &nobody;  ///< never null
  /// Notified when one registers or dies, and when the metaserver is stopped.
  runtime::Event servers_changed;

 private:
  const runtime::Clock& clock_;
  KeyValueStore& store_;
  const rpc::Secret secret_;
};

}  // namespace kintsugi::metaserver

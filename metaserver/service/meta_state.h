/// The state of a metaserver: its parts, put together once, and what all its services need of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/rpc/secret.h"
#include "common/runtime/context.h"
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
#include "metaserver/namespace/directory_policies.h"
#include "metaserver/namespace/namespace.h"
#include "metaserver/namespace/path.h"
#include "metaserver/namespace/places.h"
#include "metaserver/namespace/quotas.h"
#include "metaserver/namespace/snapshots.h"
#include "metaserver/namespace/trash.h"
#include "metaserver/repair/compactions.h"
#include "metaserver/repair/rebalancer.h"
#include "metaserver/repair/stripe_health.h"
#include "metaserver/schema/id_allocator.h"
#include "metaserver/schema/stripes.h"
#include "metaserver/service/repair_host.h"
#include "metaserver/service/settling.h"
#include "metaserver/service/store_room.h"
#include "metaserver/sessions/clients.h"
#include "metaserver/sessions/lock_waits.h"

namespace kintsugi::metaserver {

inline constexpr Duration kReadCapabilityLife = 1h;

/// There are no locks: everything between two suspension points is atomic. A handler reads, fills a Transaction and
/// finishes it.
///
/// The services share one struct instead of naming the parts they use: nearly every operation of a metadata server
/// touches the store, the servers and the chunks at once, and what matters is that each ends in finish().
struct MetaState {
  MetaState(const runtime::Runtime& runtime, MetaServerOptions options, rpc::Secret secret,
            KeyValueStore& store);

  /// Counts what the transaction changes; kQuota. Whoever tells others of a change before finish() asks first; finish() does
  /// it for all the others. Nothing that counts may be changed afterwards.
  Status account(Transaction& transaction) const { return quotas.account(transaction); }

  /// Ends an operation that wrote: commits when `done` is ok, and then tells about the stripes it freed. In any case it
  /// returns only once what `done` was derived from is durable, and nobody may believe what was before it.
  asio::awaitable<Status> finish(Context context, Status done, Transaction& transaction,
                                 FreedStripes freed = {});
  /// The metadata may keep so many bytes of files more. kLimitExceeded: they have to go to stripes.
  Status check_inline_room(const Transaction& transaction, uint64_t bytes);
  /// It keeps so many that some have to go to stripes.
  bool inline_is_crowded(const Transaction& transaction) const {
    return total_inline_bytes(transaction) > options.inline_bytes / 2;
  }

  /// A session may keep back what it writes to the file: whatever it keeps back finds room later, so that nobody has to be told
  /// of an error after a close. Not so below a quota, nor while a server's disks are nearly full.
  bool may_keep_back(InodeId inode);
  bool may_keep_back(const proto::StoredInode& inode);
  /// Gives the session the write lease of a file, if it may have it. While it does it decides about locks there, so nobody else
  /// may have one.
  bool grant_lease(uint64_t session, InodeId file) {
    return may_keep_back(file) && !locks.any_of_others(file, session) && leases.grant(session, file);
  }
  static constexpr uint64_t kKeepBackReserve = 1ull << 30;  ///< bytes that each server has free
  /// Ends the repetition of a change that was carried out before: others may not have heard of it yet.
  asio::awaitable<Status> finish_repeated(Context context, Status done = {});
  /// Ends an operation that only read.
  asio::awaitable<Status> finish_read(Context context, Status done = {});

  /// The chunk is where the stripe says and cannot be read: it counts as lost, and the host is told if that is new.
  /// `proven`: see ChunkMap::set_lost. False: that server is not its place (any more), and nothing happened.
  bool report_lost(ChunkId chunk, ServerId server, const std::string& why, bool proven);

  bool holds_chunks(ServerId server) const;  ///< it is the place of at least one chunk
  /// The chunks whose place is this server, or which are nowhere (server 0), in order, after `after`, until `visit` returns false.
  /// There may be millions.
  void scan_chunks_of(ServerId server, ChunkId after, const std::function<bool(ChunkId)>& visit) const;

  proto::ServerState state_of(const ServerRecord& server) const;
  /// What is known of all stripes, and the servers that have yet to say which chunks they have.
  proto::StripeHealth stripe_health() const;
  std::vector<proto::ServerName> servers_not_reported() const;
  std::string address_of(ServerId server) const;  ///< empty when it is dead or unknown
  /// Servers that take new chunks: alive, not being drained, not in `exclude`, with room for `chunk_bytes`.
  UsableServers usable_servers(const std::vector<ServerId>& exclude, uint64_t chunk_bytes) const;

  /// A stripe as clients see it, with capabilities for `operations` that live for `life`.
  proto::Stripe describe(StripeId id, const proto::StoredStripe& stored, uint32_t operations,
                         Duration life) const;

  runtime::Runtime runtime;
  const MetaServerOptions options;
  const rpc::Secret secret;
  KeyValueStore& store;
  RepairHost nobody;
  RepairHost* host = &nobody;  ///< never null
  std::string cluster_id;

  IdAllocator inode_ids, stripe_ids, upload_ids;
  DirectoryPolicies policies;
  Quotas quotas;
  Snapshots snapshots;
  Trash trash;
  Places places;
  Clients clients;
  /// Short names of what `clients` owns.
  Sessions& sessions;
  Leases& leases;
  Promises& promises;
  FileLocks& locks;
  LockWaits lock_waits;
  Settling settling;
  Compactions compactions;
  Inodes inodes;
  Namespace names;
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
  Rebalancer rebalancer;

  StoreRoom room;
  bool servers_have_room = false;  ///< as may_keep_back() saw it last
  std::optional<TimePoint> servers_known_until;

  runtime::Event servers_changed;  ///< notified when one registers or dies, and when `stopping` is set
  bool stopping = false;
};

/// Moves the value of `result` to where it belongs, or hands its error on.
template <class Value>
Status extract(Result<Value> result, Value& into) {
  if (!result) return result.error();
  into = std::move(*result);
  return {};
}

}  // namespace kintsugi::metaserver

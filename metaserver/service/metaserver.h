/// A metaserver: namespace, stripe map, placement, liveness, garbage collection, and the RPCs on them.
///
/// Its host (the daemon, or a simulated cluster) adds the repair manager: it takes the events, uses the
/// functions below, and registers the RPCs of repairs on `server()`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/meta.pb.h"
#include "common/rpc/secret.h"
#include "common/rpc/server.h"
#include "common/runtime/runtime.h"
#include "common/runtime/task_group.h"
#include "metaserver/cluster/options.h"
#include "metaserver/kv/key_value_store.h"
#include "metaserver/service/core.h"
#include "metaserver/service/drain_service.h"
#include "metaserver/service/file_service.h"
#include "metaserver/service/inspect_service.h"
#include "metaserver/service/namespace_service.h"
#include "metaserver/service/server_service.h"

namespace kintsugi::metaserver {

struct MetaServerStats {
  uint64_t files = 0, directories = 0, stripes = 0;
  size_t servers_alive = 0, servers_suspect = 0, servers_dead = 0;
  size_t lost_chunks = 0;  ///< reported missing or corrupt by servers and readers
  size_t live_uploads = 0;
};

class MetaServer {
 public:
  /// `runtime`'s parts and `store` must outlive it. The store is the caller's to close, after stop().
  MetaServer(const runtime::Runtime& runtime, MetaServerOptions options, rpc::Secret secret,
             KeyValueStore& store);
  ~MetaServer();

  /// To be called before start().
  void set_events(MetaServerEvents events);
  /// For more handlers, before start().
  rpc::Server& server() { return server_; }

  /// Checks the options, makes a new cluster in an empty store, loads an existing one and serves. Known
  /// servers count as alive until `dead_after` has passed; then server_dead is told for those that did not
  /// come back, and chunk_lost for the chunks that are nowhere. kCorrupt: the store's format is of a later
  /// version.
  asio::awaitable<Status> start();
  /// Idempotent. No event is told afterwards.
  asio::awaitable<void> stop();

  runtime::Endpoint endpoint() const { return server_.local_endpoint(); }
  const std::string& cluster_id() const { return core_.cluster_id; }

  // For the repair manager's host.
  std::vector<proto::ServerState> servers() const;
  /// What is in memory there, and what is read.
  const CacheMap& caches() const { return core_.caches; }
  /// Without capabilities. `available` of a chunk without bytes is true though it is on no server.
  std::optional<proto::Stripe> stripe(StripeId id) const;
  std::string capability(ChunkId chunk, uint32_t operations, WallTime expiry) const;
  /// A deletion of the chunk is, or may have been, ordered at `server`, or would be before a copy is made
  /// there: commit_repair would refuse it.
  bool deletion_pending(ChunkId chunk, ServerId server) const;
  /// All chunks whose place is this server; of server 0: all that are nowhere.
  std::vector<ChunkId> chunks_of(ServerId server) const;
  /// The same, in order, after `after`, until `visit` returns false.
  void scan_chunks_of(ServerId server, ChunkId after, const std::function<bool(ChunkId)>& visit) const;
  /// Chunks reported missing or corrupt, likewise.
  void scan_reported(ChunkId after, const std::function<bool(ChunkId)>& visit) const {
    core_.chunks.scan_lost(after, visit);
  }
  bool is_dead(ServerId server) const { return core_.servers.is_dead(server); }
  /// What was read so far is durable: it may be told.
  asio::awaitable<Status> durable() { return core_.finish_read(); }
  /// The chunk, proven to be what was written, is durable on `server`: that is its place from now on, if it
  /// is still at `expected_old` (0: nowhere). Else kConflict, or kNotFound when the stripe is gone: the copy
  /// is garbage. Durable on return.
  asio::awaitable<Status> commit_repair(Context context, ChunkId chunk, ServerId expected_old,
                                        ServerId server);
  /// A repair or move of the chunk begins. Copies of it that are deleted from now on are not committed.
  void repair_begins(ChunkId chunk);
  /// What commit_repair would say of a copy that is begun now.
  Status can_commit_repair(ChunkId chunk, ServerId expected_old, ServerId server) const;
  /// Where the stripe says that the chunk is; none: nowhere, or there is no such chunk.
  ServerId place_of(ChunkId chunk) const;
  /// A copy on `server` that was refused: it is deleted, unless that is the chunk's place.
  asio::awaitable<Status> discard_copy(ChunkId chunk, ServerId server);
  /// Could not be read there. Ignored when that is not its place.
  void report_lost(ChunkId chunk, ServerId server, const std::string& why);

  MetaServerStats stats() const;

 private:
  asio::awaitable<Status> open_store();
  asio::awaitable<void> watch_servers();
  asio::awaitable<void> tell_missing_after_grace();
  asio::awaitable<void> reclaim_forever();
  asio::awaitable<void> rebalance_forever();
  asio::awaitable<void> expire_uploads_forever();
  Status check_repair(ChunkId chunk, ServerId expected_old, ServerId server,
                      const proto::StoredStripe& stripe, bool to_be_deleted) const;
  bool deletion_ordered(ChunkId chunk, ServerId server) const;

  Core core_;
  rpc::Server server_;
  NamespaceService namespace_service_;
  FileService file_service_;
  ServerService server_service_;
  InspectService inspect_service_;
  DrainService drain_service_;
  runtime::TaskGroup tasks_;
  bool stopped_ = false;
};

}  // namespace kintsugi::metaserver

/// A metaserver: namespace, stripe map, placement, liveness, garbage collection, and the RPCs on them.
///
/// Its host (the daemon) deals with the repair managers: it is told what happens, uses repairs() and state(), and
/// registers the RPCs of repairs on server().
#pragma once

#include <string>

#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/rpc/secret.h"
#include "common/rpc/server.h"
#include "common/runtime/runtime.h"
#include "metaserver/cluster/options.h"
#include "metaserver/kv/key_value_store.h"
#include "metaserver/service/allocation_service.h"
#include "metaserver/service/cluster_upkeep.h"
#include "metaserver/service/daemon_list.h"
#include "metaserver/service/drain_service.h"
#include "metaserver/service/file_service.h"
#include "metaserver/service/file_writer.h"
#include "metaserver/service/format_service.h"
#include "metaserver/service/history_service.h"
#include "metaserver/service/inode_service.h"
#include "metaserver/service/inspect_service.h"
#include "metaserver/service/meta_state.h"
#include "metaserver/service/monitor_service.h"
#include "metaserver/service/names_service.h"
#include "metaserver/service/namespace_service.h"
#include "metaserver/service/namespace_upkeep.h"
#include "metaserver/service/quota_service.h"
#include "metaserver/service/repair_limit_service.h"
#include "metaserver/service/repair_service.h"
#include "metaserver/service/server_service.h"
#include "metaserver/service/server_watch.h"
#include "metaserver/service/session_service.h"
#include "metaserver/service/snapshot_service.h"
#include "metaserver/service/token_gate.h"
#include "metaserver/service/token_service.h"
#include "metaserver/service/trash_service.h"
#include "metaserver/service/write_service.h"
#include "metaserver/service/xattr_service.h"

namespace kintsugi::metaserver {

struct MetaServerStats {
  uint64_t files = 0, directories = 0, stripes = 0;
  size_t servers_alive = 0, servers_suspect = 0, servers_dead = 0;
  size_t servers_in_maintenance = 0, servers_awaited = 0;  ///< awaited: dead and in maintenance
  size_t lost_chunks = 0;  ///< chunks that servers or readers reported missing or corrupt
  proto::StripeHealth health;
  size_t live_uploads = 0;
  uint64_t quarantined_chunks = 0;
  bool in_doubt = false;  ///< the metadata is older than chunks of the cluster
};

class MetaServer {
 public:
  /// `runtime`'s parts and `store` must outlive it. The store is the caller's to close, after stop().
  MetaServer(const runtime::Runtime& runtime, MetaServerOptions options, rpc::Secret secret,
             KeyValueStore& store);
  ~MetaServer();

  /// To be called before start(). The host lives until stop() has returned.
  void set_host(RepairHost& host) { state_.repairs.host.set(host); }
  /// For more handlers, before start().
  rpc::Server& server() { return server_; }

  /// Checks the options, makes a new cluster in an empty store, loads an existing one and serves. Known servers count
  /// as alive until `dead_after` has passed; then server_dead is told for those that did not come back, and chunk_lost
  /// for the chunks that are nowhere. kNotSupported: the store has a format that this program does not know.
  asio::awaitable<Status> start();
  /// Idempotent. The host is told nothing afterwards.
  asio::awaitable<void> stop();

  runtime::Endpoint endpoint() const { return server_.local_endpoint(); }
  /// Number of connections that others have opened.
  size_t connections() const { return server_.connections(); }
  const std::string& cluster_id() const { return state_.store.cluster_id; }
  /// start() made the cluster: its store was empty.
  bool made_cluster() const { return made_cluster_; }
  const MetaState& state() const { return state_; }
  MetaState& state() { return state_; }
  RepairService& repairs() { return repair_service_; }
  MetaServerStats stats() const;
  std::optional<MonitorLease::Monitor> monitor() const { return monitor_service_.monitor(); }

 private:
  void register_services();
  asio::awaitable<Status> open_store();

  MetaState state_;
  ServerWatch watch_;
  rpc::Server server_;
  NamespaceService namespace_service_;
  AllocationService allocation_service_;
  NamesService names_service_;
  FileService file_service_;
  FileWriter file_writer_;
  WriteService write_service_;
  InodeService inode_service_;
  XattrService xattr_service_;
  SessionService session_service_;
  QuotaService quota_service_;
  SnapshotService snapshot_service_;
  TrashService trash_service_;
  ServerService server_service_;
  InspectService inspect_service_;
  DrainService drain_service_;
  RepairLimitService repair_limit_service_;
  HistoryService history_service_;
  MonitorService monitor_service_;
  FormatService format_service_;
  DaemonList daemon_list_;
  RepairService repair_service_;
  TokenGate token_gate_;
  TokenService token_service_;
  ClusterUpkeep cluster_upkeep_;
  NamespaceUpkeep namespace_upkeep_;
  bool made_cluster_ = false;
  bool stopped_ = false;
};

}  // namespace kintsugi::metaserver

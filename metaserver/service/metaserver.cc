#include "metaserver/service/metaserver.h"

#include <algorithm>

#include "common/log/log.h"
#include "monitoring/sight/recorder.h"
#include "tracing/agent/trace_service.h"

namespace kintsugi::metaserver {
namespace {

constexpr std::string_view kWellKnownPolicies[] = {"rs-3-2-1024k",     "rs-6-3-1024k",
                                                   "rs-10-4-1024k",    "replication-3-1024k",
                                                   "lrc-12-2-2-1024k", "rrs-12-4-1024k"};

std::string make_cluster_id(runtime::Random& random) {
  return fmt::format("{:016x}", random.next());
}

}  // namespace

MetaServer::MetaServer(const runtime::Runtime& runtime, MetaServerOptions options, rpc::Secret secret,
                       KeyValueStore& store)
    : state_(runtime, std::move(options), secret, store),
      watch_(state_.store.runtime, secret, state_.servers.registry),
      server_(runtime, secret, state_.options.recorder,
              {.signed_for = std::max(kReadCapabilityLife, state_.options.upload_ttl)}),
      namespace_service_(state_.store, state_.names, state_.clients, state_.servers, state_.chunks.health,
                         state_.chunks.block_reports),
      allocation_service_(state_.store, state_.names, state_.servers, state_.new_stripes,
                          state_.writes.uploads, state_.describer),
      names_service_(state_.store, state_.names, state_.clients, state_.lease_grants),
      file_service_(state_.store, state_.names, state_.writes, state_.chunks.garbage, state_.servers.slow,
                    state_.describer),
      file_writer_(state_.store, state_.names, state_.clients, state_.new_stripes.ids,
                   state_.repairs.compactions),
      write_service_(state_.store, state_.names, state_.clients, state_.writes, file_writer_, names_service_),
      inode_service_(state_.store, state_.names, state_.clients, state_.lease_grants, file_service_),
      xattr_service_(state_.store, state_.names, state_.clients),
      session_service_(state_.store, state_.names, state_.clients, state_.servers.slow),
      quota_service_(state_.store, state_.names),
      snapshot_service_(state_.store, state_.names),
      trash_service_(state_.store, state_.names, state_.clients),
      server_service_(state_.store, state_.servers, state_.chunks, state_.repairs.host, watch_),
      inspect_service_(state_.store, state_.names, state_.servers, state_.chunks, state_.repairs.rebalancer,
                       state_.describer),
      drain_service_(state_.store, state_.servers.registry, state_.servers.caches, state_.chunks.quarantine,
                     state_.repairs.host),
      repair_limit_service_(state_.store, state_.servers.repair_limit),
      history_service_(state_.store, state_.chunks, state_.servers.registry.names()),
      monitor_service_(state_.store, state_.servers.slow),
      format_service_(state_.store, state_.servers.registry, state_.repairs.host, monitor_service_),
      daemon_list_(state_.servers.registry, state_.repairs.host, monitor_service_),
      repair_service_(state_.store, state_.servers.registry, state_.chunks.map, state_.chunks.garbage),
      token_gate_(state_.store.kv, state_.names.snapshots, state_.names.places),
      token_service_(state_.store, secret, server_),
      cluster_upkeep_(state_.store, state_.servers, state_.chunks, state_.writes.uploads, state_.repairs),
      namespace_upkeep_(state_.store, state_.names, state_.clients) {
  register_services();
  server_.admit_tokens_by(
      [this](const rpc::Principal& by, rpc::Method method, google::protobuf::MessageLite& request) {
        return token_gate_.admit(by, method, request);
      });
  server_.on_connection_ended([this](uint64_t connection) { watch_.connection_ended(connection); });
}

void MetaServer::register_services() {
  namespace_service_.register_on(server_);
  allocation_service_.register_on(server_);
  file_service_.register_on(server_);
  write_service_.register_on(server_);
  inode_service_.register_on(server_);
  xattr_service_.register_on(server_);
  session_service_.register_on(server_);
  names_service_.register_on(server_);
  quota_service_.register_on(server_);
  snapshot_service_.register_on(server_);
  trash_service_.register_on(server_);
  server_service_.register_on(server_);
  inspect_service_.register_on(server_);
  drain_service_.register_on(server_);
  repair_limit_service_.register_on(server_);
  history_service_.register_on(server_);
  monitor_service_.register_on(server_);
  format_service_.register_on(server_);
  daemon_list_.register_on(server_);
  token_service_.register_handlers();
  tracing::TraceService::register_on(server_);
}

MetaServer::~MetaServer() = default;

asio::awaitable<Status> MetaServer::start() {
  KINTSUGI_CO_TRY(state_.options.check());
  state_.chunks.history.load();
  KINTSUGI_CO_TRY(co_await open_store());
  KINTSUGI_CO_TRY(co_await state_.names.inode_ids.start());
  KINTSUGI_CO_TRY(co_await state_.new_stripes.ids.start());
  KINTSUGI_CO_TRY(co_await state_.chunks.history.begin());
  state_.chunks.quarantine.load(state_.store.kv);
  state_.servers.registry.load(state_.store.kv);
  state_.writes.uploads.load(state_.store.kv);
  state_.clients.load(state_.store.kv);
  state_.names.quotas.load(state_.store.kv);
  state_.names.snapshots.load(state_.store.kv);
  state_.names.trash.load(state_.store.kv);
  token_service_.load();
  KINTSUGI_CO_TRY(server_.start(state_.options.listen));
  cluster_upkeep_.start();
  namespace_upkeep_.start();
  log::info("metaserver of cluster {} serves at {}", state_.store.cluster_id,
            server_.local_endpoint().to_string());
  co_return Status{};
}

asio::awaitable<Status> MetaServer::open_store() {
  const Reader reader(state_.store.kv);
  if (const auto cluster = reader.get_message<proto::StoredCluster>(keys::cluster())) {
    KINTSUGI_CO_TRY(format_service_.load(*cluster));
    state_.store.cluster_id = cluster->cluster_id();
    state_.servers.repair_limit.load(*cluster);
    co_return Status{};
  }
  Transaction transaction(state_.store.kv);
  proto::StoredCluster cluster;
  cluster.set_cluster_id(make_cluster_id(state_.store.runtime.random));
  cluster.set_format_version(proto::kNewestFormat);
  transaction.put_message(keys::cluster(), cluster);
  for (std::string_view policy : kWellKnownPolicies)
    transaction.put(keys::policy(policy), "");
  transaction.put(keys::policy(state_.options.default_policy), "");
  state_.names.tree.format(transaction, state_.options.default_policy, state_.options.root_uid,
                           state_.options.root_gid);
  state_.store.cluster_id = cluster.cluster_id();
  made_cluster_ = true;
  co_return co_await state_.store.kv.commit(transaction.take());
}

asio::awaitable<void> MetaServer::stop() {
  if (std::exchange(stopped_, true)) co_return;
  state_.store.stopping = true;
  state_.clients.stop();
  state_.servers.changed.notify_all();
  cluster_upkeep_.request_stop();
  namespace_upkeep_.request_stop();
  co_await server_.stop();
  co_await watch_.stop();
  co_await cluster_upkeep_.join();
  co_await namespace_upkeep_.join();
  co_await state_.names.inode_ids.stop();
  co_await state_.new_stripes.ids.stop();
}

MetaServerStats MetaServer::stats() const {
  const auto totals = Reader(state_.store.kv).get_message<proto::StoredTotals>(keys::totals());
  MetaServerStats stats;
  if (totals) {
    stats.files = totals->files();
    stats.directories = totals->directories();
    stats.stripes = totals->stripes();
  }
  stats.servers_alive = state_.servers.registry.count(proto::ServerState::ALIVE);
  stats.servers_suspect = state_.servers.registry.count(proto::ServerState::SUSPECT);
  stats.servers_dead = state_.servers.registry.count(proto::ServerState::DEAD);
  for (const auto& [id, server] : state_.servers.registry.servers()) {
    if (!state_.servers.registry.in_maintenance(server)) continue;
    ++stats.servers_in_maintenance;
    stats.servers_awaited += server.liveness == proto::ServerState::DEAD ? 1 : 0;
  }
  stats.lost_chunks = state_.chunks.map.lost_chunks();
  stats.health = state_.chunks.health.counts();
  stats.live_uploads = state_.writes.uploads.live();
  stats.quarantined_chunks = state_.chunks.quarantine.count();
  stats.in_doubt = state_.chunks.history.doubt().has_value();
  return stats;
}

}  // namespace kintsugi::metaserver

#include "metaserver/service/metaserver.h"

#include "common/log/log.h"
#include "metaserver/namespace/changes.h"
#include "metaserver/namespace/reclaim.h"
#include "metaserver/namespace/snapshot_deletion.h"
#include "monitoring/sight/module.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kStep{"metaserver.background_step"};
constexpr sight::Site kRebalance{"metaserver.rebalance"};
constexpr sight::Site kExpireUploads{"metaserver.expire_uploads"};
constexpr sight::Site kExpireSessions{"metaserver.expire_sessions"};
constexpr sight::Site kExpireQuarantine{"metaserver.expire_quarantine"};
/// 2: extents are keys of their own, and inodes know their parents. 3: stripes may keep their bytes in their records.
constexpr uint32_t kFormatVersion = 3;
constexpr Duration kReclaimPause = std::chrono::milliseconds(200);
constexpr Duration kLookPause = std::chrono::milliseconds(50);  ///< between steps over all files
constexpr Duration kPassPause = std::chrono::minutes(10);       ///< between passes
/// Between steps, and between passes, over the chunks that cannot be read.
constexpr Duration kHealthStepPause = std::chrono::milliseconds(10), kHealthPause = std::chrono::seconds(1);
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
      watch_(state_.runtime, secret, state_.servers),
      server_(runtime, secret, state_.options.recorder),
      namespace_service_(state_),
      allocation_service_(state_),
      names_service_(state_),
      file_service_(state_),
      write_service_(state_, names_service_),
      inode_service_(state_, file_service_),
      quota_service_(state_),
      snapshot_service_(state_),
      trash_service_(state_),
      server_service_(state_, watch_),
      inspect_service_(state_),
      drain_service_(state_),
      history_service_(state_),
      monitor_service_(state_.runtime.clock, state_.slow),
      repair_service_(state_),
      tasks_(runtime) {
  namespace_service_.register_on(server_);
  allocation_service_.register_on(server_);
  file_service_.register_on(server_);
  write_service_.register_on(server_);
  inode_service_.register_on(server_);
  names_service_.register_on(server_);
  quota_service_.register_on(server_);
  snapshot_service_.register_on(server_);
  trash_service_.register_on(server_);
  server_service_.register_on(server_);
  inspect_service_.register_on(server_);
  drain_service_.register_on(server_);
  history_service_.register_on(server_);
  monitor_service_.register_on(server_);
  server_.on_connection_ended([this](uint64_t connection) { watch_.connection_ended(connection); });
}

MetaServer::~MetaServer() = default;

asio::awaitable<Status> MetaServer::start() {
  KINTSUGI_CO_TRY(state_.options.check());
  state_.history.load();
  KINTSUGI_CO_TRY(co_await open_store());
  KINTSUGI_CO_TRY(co_await state_.inode_ids.start());
  KINTSUGI_CO_TRY(co_await state_.stripe_ids.start());
  KINTSUGI_CO_TRY(co_await state_.upload_ids.start());
  KINTSUGI_CO_TRY(co_await state_.history.begin());
  state_.quarantine.load(state_.store);
  state_.servers.load(state_.store);
  state_.uploads.load(state_.store);
  state_.sessions.load(state_.store);
  if (state_.sessions.count() > 0) state_.promises.started();
  state_.quotas.load(state_.store);
  state_.snapshots.load(state_.store);
  state_.trash.load(state_.store);
  KINTSUGI_CO_TRY(server_.start(state_.options.listen));
  tasks_.spawn(watch_servers());
  tasks_.spawn(tell_missing_after_grace());
  const auto held = [this](InodeId inode) { return state_.sessions.held(inode); };
  tasks_.spawn(
      step_forever([held, reclaim = Reclaim()](Transaction& transaction, FreedStripes& freed) mutable {
        return reclaim.step(transaction, held, freed);
      }));
  tasks_.spawn(step_forever(
      [this](Transaction& transaction, FreedStripes&) { return state_.quotas.mark_step(transaction); }));
  tasks_.spawn(step_forever(
      [this, deletion = SnapshotDeletion()](Transaction& transaction, FreedStripes& freed) mutable {
        return deletion.step(state_.snapshots, transaction, freed);
      }));
  tasks_.spawn(step_forever([this, held](Transaction& transaction, FreedStripes& freed) {
    return state_.trash.expire_step(transaction, state_.inodes, held, freed);
  }));
  tasks_.spawn(look_at_layouts_forever());
  tasks_.spawn(count_degraded_stripes_forever());
  tasks_.spawn(expire_uploads_forever());
  tasks_.spawn(expire_sessions_forever());
  tasks_.spawn(expire_quarantine_forever());
  tasks_.spawn(rebalance_forever());
  log::info("metaserver of cluster {} serves at {}", state_.cluster_id, server_.local_endpoint().to_string());
  co_return Status{};
}

asio::awaitable<Status> MetaServer::open_store() {
  const Reader reader(state_.store);
  if (const auto cluster = reader.get_message<proto::StoredCluster>(keys::cluster())) {
    if (cluster->format_version() > kFormatVersion) {
      co_return Status{Code::kCorrupt,
                       fmt::format("the metadata has format {}, this metaserver reads up to {}",
                                   cluster->format_version(), kFormatVersion)};
    }
    state_.cluster_id = cluster->cluster_id();
    co_return co_await convert(*cluster);
  }
  Transaction transaction(state_.store);
  proto::StoredCluster cluster;
  cluster.set_cluster_id(make_cluster_id(state_.runtime.random));
  cluster.set_format_version(kFormatVersion);
  transaction.put_message(keys::cluster(), cluster);
  for (std::string_view policy : kWellKnownPolicies)
    transaction.put(keys::policy(policy), "");
  transaction.put(keys::policy(state_.options.default_policy), "");
  state_.names.format(transaction, state_.options.default_policy, state_.options.root_uid,
                      state_.options.root_gid);
  state_.cluster_id = cluster.cluster_id();
  co_return co_await state_.store.commit(transaction.take());
}

asio::awaitable<Status> MetaServer::convert(proto::StoredCluster cluster) {
  if (cluster.format_version() == kFormatVersion) co_return Status{};
  log::info("the metadata are brought from format {} to {}", cluster.format_version(), kFormatVersion);
  const bool first = cluster.format_version() < 2;
  for (bool more = first; more;) {
    Transaction transaction(state_.store);
    more = convert_extents_step(transaction);
    if (more) KINTSUGI_CO_TRY(co_await state_.store.commit(transaction.take()));
  }
  std::string after;
  for (bool more = first; more;) {
    Transaction transaction(state_.store);
    more = note_parents_step(transaction, after);
    KINTSUGI_CO_TRY(co_await state_.store.commit(transaction.take()));
  }
  Transaction transaction(state_.store);
  cluster.set_format_version(kFormatVersion);
  transaction.put_message(keys::cluster(), cluster);
  co_return co_await state_.store.commit(transaction.take());
}

asio::awaitable<void> MetaServer::stop() {
  if (std::exchange(stopped_, true)) co_return;
  state_.stopping = true;
  state_.leases.stop();
  state_.promises.stop();
  state_.news.notify_all();
  state_.servers_changed.notify_all();
  tasks_.request_stop();
  co_await server_.stop();
  co_await watch_.stop();
  co_await tasks_.join();
  co_await state_.inode_ids.stop();
  co_await state_.stripe_ids.stop();
  co_await state_.upload_ids.stop();
}

asio::awaitable<void> MetaServer::watch_servers() {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(state_.options.heartbeat_interval / 4);
    if (!slept) co_return;
    for (ServerId died : state_.servers.check_liveness()) {
      state_.caches.server_died(died);
      state_.host->server_dead(died);
      state_.servers_changed.notify_all();
    }
  }
}

asio::awaitable<void> MetaServer::tell_missing_after_grace() {
  const bool slept = co_await tasks_.sleep_for(state_.options.dead_after);
  if (!slept) co_return;
  // Only now: their repairs need helpers, and the servers that live have come back by this time.
  constexpr size_t kPage = 2000;  // others have a turn between two
  ChunkId after;
  for (size_t told = kPage; told == kPage && !tasks_.stopping();) {
    told = 0;
    state_.scan_chunks_of(ServerId{}, after, [&](ChunkId chunk) {
      state_.host->chunk_lost(chunk, "missing since the write");
      after = chunk;
      return ++told < kPage;
    });
    co_await asio::post(state_.runtime.executor, asio::use_awaitable);
  }
}

asio::awaitable<void> MetaServer::step_forever(std::function<bool(Transaction&, FreedStripes&)> step) {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(kReclaimPause);
    if (!slept) co_return;
    while (!tasks_.stopping()) {
      Transaction transaction(state_.store);
      FreedStripes freed;
      if (!step(transaction, freed)) break;
      (void)state_.quotas.account(transaction, false);  // what nobody waits for is never refused
      const sight::BackgroundTask task{background(), kStep};
      const Status status = co_await state_.finish(task.context(), Status(), transaction, std::move(freed));
      if (!status.ok())
        break;  // the same step comes again, unless the store has failed, which ends the process
    }
  }
}

Context MetaServer::background() const {
  return state_.options.recorder != nullptr ? state_.options.recorder->root_context() : Context{};
}

asio::awaitable<void> MetaServer::look_at_layouts_forever() {
  bool more = false;
  while (co_await tasks_.sleep_for(more ? kLookPause : kPassPause))
    more = state_.compactions.scan_step(Reader(state_.store),
                                        state_.inline_is_crowded(Transaction(state_.store)));
}

asio::awaitable<void> MetaServer::count_degraded_stripes_forever() {
  bool more = false;
  while (co_await tasks_.sleep_for(more ? kHealthStepPause : kHealthPause))
    more = state_.health.step(Reader(state_.store));
}

asio::awaitable<void> MetaServer::rebalance_forever() {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(Rebalancer::kInterval);
    if (!slept) co_return;
    const sight::BackgroundTask task{background(), kRebalance};
    const Rebalancer::Changes changes = state_.rebalancer.step(state_.store);
    for (ServerId from : changes.cancelled)
      state_.host->moves_cancelled(from);
    for (const WantedMove& move : changes.wanted)
      state_.host->move_wanted(move);
  }
}

asio::awaitable<void> MetaServer::expire_uploads_forever() {
  const Duration pause = std::min<Duration>(state_.options.upload_idle / 8, 5s);
  TimePoint last = state_.runtime.clock.now();
  while (true) {
    const bool slept = co_await tasks_.sleep_for(pause);
    if (!slept) co_return;
    // A process that was stopped for a while, or could not write, must not give everybody up because it heard nobody.
    const Duration took = state_.runtime.clock.now() - std::exchange(last, state_.runtime.clock.now());
    if (took > 2 * pause) state_.uploads.stood_still(took - pause);
    while (!tasks_.stopping()) {
      Transaction transaction(state_.store);
      FreedStripes freed;
      std::vector<ServerId> servers;
      if (!state_.uploads.expire_step(transaction, freed, servers)) break;
      const sight::BackgroundTask task{background(), kExpireUploads};
      const Status status = co_await state_.finish(task.context(), Status(), transaction, std::move(freed));
      if (!status.ok()) co_return;
      for (ServerId server : servers)
        state_.garbage.wake(server);
    }
  }
}

asio::awaitable<void> MetaServer::expire_sessions_forever() {
  constexpr Duration kPause = std::chrono::seconds(1);
  TimePoint last = state_.runtime.clock.now();
  while (true) {
    const bool slept = co_await tasks_.sleep_for(kPause);
    if (!slept) co_return;
    const Duration took = state_.runtime.clock.now() - std::exchange(last, state_.runtime.clock.now());
    if (took > 2 * kPause) state_.sessions.stood_still(took - kPause);
    for (const uint64_t session : state_.sessions.expire()) {
      if (state_.sessions.known(session)) continue;  // it has come back while others were ended
      state_.locks.session_ended(session);
      state_.leases.ended(session);
      state_.promises.ended(session);
      Transaction transaction(state_.store);
      if (state_.sessions.ended_by_silence(session)) {
        note_ended(transaction, session);
      } else {
        forget_changes(transaction, session);
      }
      const sight::BackgroundTask task{background(), kExpireSessions};
      const Status status = co_await state_.finish(task.context(), Status(), transaction);
      if (!status.ok()) co_return;
    }
    for (const uint64_t session : state_.sessions.to_forget()) {
      if (state_.sessions.known(session)) continue;
      Transaction transaction(state_.store);
      forget_changes(transaction, session);
      const sight::BackgroundTask task{background(), kExpireSessions};
      const Status status = co_await state_.finish(task.context(), Status(), transaction);
      if (!status.ok()) co_return;
    }
  }
}

asio::awaitable<void> MetaServer::expire_quarantine_forever() {
  while (true) {
    const bool slept = co_await tasks_.sleep_for(Quarantine::kTick);
    if (!slept) co_return;
    bool more = true;
    while (more && !tasks_.stopping() && !state_.history.doubt()) {
      Transaction transaction(state_.store);
      std::vector<ServerId> servers;
      more = state_.quarantine.step(transaction, servers);
      const sight::BackgroundTask task{background(), kExpireQuarantine};
      const Status status = co_await state_.finish(task.context(), Status(), transaction);
      if (!status.ok()) co_return;
      for (ServerId server : servers)
        state_.garbage.wake(server);
    }
  }
}

MetaServerStats MetaServer::stats() const {
  const auto totals = Reader(state_.store).get_message<proto::StoredTotals>(keys::totals());
  MetaServerStats stats;
  if (totals) {
    stats.files = totals->files();
    stats.directories = totals->directories();
    stats.stripes = totals->stripes();
  }
  stats.servers_alive = state_.servers.count(proto::ServerState::ALIVE);
  stats.servers_suspect = state_.servers.count(proto::ServerState::SUSPECT);
  stats.servers_dead = state_.servers.count(proto::ServerState::DEAD);
  stats.lost_chunks = state_.chunks.lost_chunks();
  stats.health = state_.health.counts();
  stats.live_uploads = state_.uploads.live();
  stats.quarantined_chunks = state_.quarantine.count();
  stats.in_doubt = state_.history.doubt().has_value();
  return stats;
}

}  // namespace kintsugi::metaserver

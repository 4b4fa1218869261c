#include "metaserver/service/meta_state.h"

#include "common/runtime/fault_points.h"
#include "metaserver/namespace/changes.h"
#include "metaserver/namespace/snapshot_saving.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {

namespace {

/// From handing the batch over until it is synced.
constexpr sight::Site kCommitBatch{"metaserver.commit_batch"};
/// Until clients have heard that what they were told before has changed.
constexpr sight::Site kBreakPromises{"metaserver.break_promises"};

}  // namespace

MetaState::MetaState(const runtime::Runtime& runtime_, MetaServerOptions options_, rpc::Secret secret_,
                     KeyValueStore& store_)
    : runtime(runtime_),
      options(std::move(options_)),
      secret(secret_),
      store(store_),
      inode_ids(runtime, store, "inode"),
      stripe_ids(runtime, store, "stripe"),
      upload_ids(runtime, store, "upload"),
      policies(runtime.clock, options.default_policy),
      places(store, snapshots),
      clients(runtime, store),
      sessions(clients.sessions),
      leases(clients.leases),
      promises(clients.promises),
      locks(clients.locks),
      lock_waits(runtime.clock),
      settling(runtime, store, leases),
      compactions(runtime.clock),
      inodes(inode_ids, runtime.clock, &snapshots, &trash),
      names(inode_ids, inodes, [this](InodeId inode) { return sessions.held(inode); }),
      servers(options, runtime.clock),
      slow(servers, runtime.clock),
      caches(runtime.clock),
      chunks(servers, runtime.clock),
      health(chunks),
      garbage(chunks, runtime.clock),
      history(runtime, options, store, stripe_ids, servers),
      quarantine(options, runtime.clock),
      allocations(options, secret, runtime.clock),
      uploads(allocations, options, runtime.clock),
      block_reports({servers, chunks, garbage, allocations, history, quarantine}, runtime.clock),
      rebalancer(servers, chunks, slow, runtime.clock),
      room(store, runtime.clock),
      servers_changed(runtime) {}

Status MetaState::check_inline_room(const Transaction& transaction, uint64_t bytes) {
  KINTSUGI_TRY(room.check());
  const uint64_t kept = total_inline_bytes(transaction);
  if (room.has(StoreRoom::kReserveBytes + options.inline_bytes) && kept + bytes <= options.inline_bytes)
    return {};
  return {Code::kLimitExceeded, fmt::format("the metadata keeps {} bytes of files, and takes no more", kept)};
}

bool MetaState::may_keep_back(InodeId inode) {
  const auto stored = Reader(store).get_message<proto::StoredInode>(keys::inode(inode));
  return stored && may_keep_back(*stored);
}

bool MetaState::may_keep_back(const proto::StoredInode& inode) {
  const TimePoint now = runtime.clock.now();
  if (!servers_known_until || now >= *servers_known_until) {
    servers_known_until = now + StoreRoom::kInterval;
    servers_have_room =
        room.has(StoreRoom::kReserveBytes) && std::ranges::none_of(servers.servers(), [](const auto& one) {
          if (one.second.liveness != proto::ServerState::ALIVE) return false;
          uint64_t free = 0;
          for (const proto::DeviceSpace& device : one.second.load.devices())
            free += device.free_bytes();
          return !one.second.load.devices().empty() && free < kKeepBackReserve;
        });
  }
  if (!servers_have_room) return false;
  const bool of_file = inode.type() == proto::Attributes::FILE;
  return inode.quota() == 0 && (of_file || (is_directory(inode) && !inode.has_xattrs()));
}

asio::awaitable<Status> MetaState::finish_read(Context context, Status done) {
  if (store.is_durable()) co_return done;
  const sight::Wait wait(context, sight::WaitKind::kStore);
  const Status durable = co_await store.durable();
  co_return durable.ok() ? std::move(done) : durable;
}

asio::awaitable<Status> MetaState::finish_repeated(Context context, Status done) {
  co_await promises.heard(promises.unheard());
  co_return co_await finish_read(context, std::move(done));
}

asio::awaitable<Status> MetaState::finish(Context context, Status done, Transaction& transaction,
                                          FreedStripes freed) {
  if (done.ok()) done = account(transaction);
  // Also a refusal was derived from writes that may still be on their way.
  if (!done.ok()) co_return co_await finish_read(context, std::move(done));
  save_for_snapshots(snapshots, transaction, freed);
  KINTSUGI_FAULT_POINT(runtime.faults, kintsugi::runtime::FaultPoint::kStoreCommit);
  // Others read what is pending, so it counts as changed from here on: nothing runs in between. Should the batch not
  // become durable, the store fails as a whole and the process ends, so memory is never ahead of what reads show.
  settling.follow(transaction);
  snapshots.follow(transaction);
  trash.follow(transaction);
  quotas.follow(transaction);
  servers.follow(transaction);
  Promises::Hearers hearers = promises.changed(transaction);
  {
    sight::Module module(context, kCommitBatch);
    const sight::Wait wait(module.context(), sight::WaitKind::kStore);
    const Status committed = module.finish(co_await store.commit(transaction.take()));
    if (!committed.ok()) co_return committed;
  }
  garbage.wake_all_of(freed);
  for (const auto& [id, stripe] : freed) {
    chunks.forget(id, stripe);
    host->stripe_deleted(id);
  }
  if (!hearers.empty()) {
    sight::Module module(context, kBreakPromises);
    const sight::Wait wait(module.context(), sight::WaitKind::kResource);
    co_await promises.heard(std::move(hearers));
  }
  co_return Status{};
}

bool MetaState::report_lost(ChunkId chunk, ServerId server, const std::string& why, bool proven) {
  const auto stripe = load_stripe(store, chunk.stripe);
  if (!stripe || chunk.index >= static_cast<uint32_t>(stripe->chunks_size())) return false;
  if (!server || stripe->chunks(static_cast<int>(chunk.index)).server_id() != server.value) return false;
  if (chunks.set_lost(chunk, proven)) host->chunk_lost(chunk, why);
  if (proven) block_reports.note_distrusted(server, runtime.clock.now() + ChunkMap::kDistrust);
  return true;
}

bool MetaState::holds_chunks(ServerId server) const {
  bool empty = true;
  scan_chunks_of(server, {}, [&](ChunkId) { return empty = false; });
  return !empty;
}

void MetaState::scan_chunks_of(ServerId server, ChunkId after,
                               const std::function<bool(ChunkId)>& visit) const {
  // Any index may come from a repair manager.
  const ChunkId last{after.stripe, std::min(after.index, keys::kMaxIndex)};
  const std::string begin = keys::server_chunk(server, last) + '\0';
  const keys::Range range = keys::all(keys::Kind::kServerChunk, server.value);
  store.scan(begin, range.end,
             [&](std::string_view key, std::string_view) { return visit(keys::chunk_of(key)); });
}

std::string MetaState::address_of(ServerId server) const {
  const ServerRecord* record = servers.find(server);
  if (!record || record->liveness == proto::ServerState::DEAD) return {};
  return record->stored.address();
}

proto::ServerState MetaState::state_of(const ServerRecord& server) const {
  proto::ServerState state = servers.state_of(server);
  state.set_cached_chunks(caches.cached_chunks(server.id));
  if (const proto::SlowServer* why = slow.find(server.id)) *state.mutable_slow() = *why;
  if (auto held = rebalancer.held_back(server.id)) *state.mutable_held_back() = std::move(*held);
  state.set_reported(block_reports.reported(server));
  // Its last heartbeat may not count yet what was placed there just now: it must not look drained.
  if (server.stored.draining() && state.chunks() == 0 && holds_chunks(server.id)) state.set_chunks(1);
  return state;
}

std::vector<proto::ServerName> MetaState::servers_not_reported() const {
  std::vector<proto::ServerName> names;
  for (const auto& [id, server] : servers.servers())
    if (server.liveness != proto::ServerState::DEAD && !block_reports.reported(server))
      names.push_back(servers.names().of(id));
  return names;
}

proto::StripeHealth MetaState::stripe_health() const {
  proto::StripeHealth known = health.counts();
  for (proto::ServerName& name : servers_not_reported())
    *known.add_not_reported() = std::move(name);
  return known;
}

proto::Stripe MetaState::describe(StripeId id, const proto::StoredStripe& stored, uint32_t operations,
                                  Duration life) const {
  const WallTime expiry = runtime.clock.wall_now() + life;
  proto::Stripe stripe;
  stripe.set_stripe_id(id.value);
  stripe.set_policy(stored.policy());
  stripe.set_length(stored.length());
  stripe.set_live_bytes(stored.live_bytes());
  for (uint32_t i = 0; i < static_cast<uint32_t>(stored.chunks_size()); ++i) {
    const proto::StoredChunk& chunk = stored.chunks(static_cast<int>(i));
    proto::ChunkPlacement* placement = stripe.add_chunks();
    placement->set_index(i);
    placement->set_server_id(chunk.server_id());
    placement->set_address(address_of(ServerId{chunk.server_id()}));
    if (chunk.server_id() != 0) {
      const proto::ServerName name = servers.names().of(ServerId{chunk.server_id()});
      placement->set_server_name(name.name());
      placement->set_server_number(name.number());
    }
    placement->set_length(chunk.length());
    placement->set_crc(chunk.crc());
    placement->set_available(chunks.available({id, i}, chunk));
    // Also for a chunk that is nowhere: it stands for the right to have it rebuilt for a read.
    if (chunk.server_id() != 0 || operations == rpc::kOpRead)
      placement->set_capability(rpc::make_capability(secret, {id, i}, operations, expiry));
  }
  return stripe;
}

UsableServers MetaState::usable_servers(const std::vector<ServerId>& exclude, uint64_t chunk_bytes) const {
  UsableServers usable;
  usable.needed_bytes = chunk_bytes;
  for (const auto& [id, server] : servers.servers()) {
    const bool suspect = server.liveness == proto::ServerState::SUSPECT;
    if (suspect && !server.registered && !server.stored.draining()) ++usable.expected;
    if (server.liveness != proto::ServerState::ALIVE) continue;
    ++usable.alive;
    // A server that has registered but not sent its first heartbeat yet is taken at its word.
    const bool measured = server.load.server_id() != 0;
    const uint64_t free_bytes = measured ? server.load.free_bytes() : chunk_bytes;
    if (server.stored.draining()) {
      ++usable.draining;
    } else if (std::find(exclude.begin(), exclude.end(), id) != exclude.end()) {
      ++usable.excluded;
    } else if (free_bytes < chunk_bytes) {
      ++usable.full;
    } else {
      usable.servers.push_back({id, server.stored.rack(), free_bytes, slow.contains(id)});
    }
  }
  return usable;
}

}  // namespace kintsugi::metaserver

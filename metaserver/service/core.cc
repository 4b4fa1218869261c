#include "metaserver/service/core.h"

#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {

namespace {

/// From handing the batch over until it is synced.
constexpr sight::Site kCommitBatch{"metaserver.commit_batch"};

}  // namespace

Core::Core(const runtime::Runtime& runtime_, MetaServerOptions options_, rpc::Secret secret_,
           KeyValueStore& store_)
    : runtime(runtime_),
      options(std::move(options_)),
      secret(secret_),
      store(store_),
      inode_ids(runtime, store, "inode"),
      stripe_ids(runtime, store, "stripe"),
      upload_ids(runtime, store, "upload"),
      names(inode_ids, runtime.clock, options.default_policy),
      servers(options, runtime.clock),
      caches(runtime.clock),
      chunks(servers, runtime.clock),
      garbage(chunks, runtime.clock),
      uploads(options, secret, runtime.clock),
      block_reports(servers, chunks, garbage, uploads, runtime.clock),
      rebalancer(servers, chunks, runtime.clock) {
  servers.on_dead = [this](ServerId server) {
    caches.server_died(server);
    events.server_dead(server);
  };
  rebalancer.on_wanted = [this](const WantedMove& move) { events.move_wanted(move); };
  rebalancer.on_cancelled = [this](ServerId from) { events.moves_cancelled(from); };
  servers.on_returned = [this](ServerId server) { events.server_returned(server); };
  chunks.on_lost = [this](ChunkId chunk, const std::string& why) { events.chunk_lost(chunk, why); };
}

asio::awaitable<Status> Core::finish_read(Status done) {
  const Status durable = co_await store.durable();
  co_return durable.ok() ? std::move(done) : durable;
}

asio::awaitable<Status> Core::finish(Context context, Status done, Transaction& transaction,
                                     FreedStripes freed) {
  if (!done.ok()) co_return co_await finish_read(std::move(done));
  {
    sight::Module module(context, kCommitBatch);
    const Status committed = module.finish(co_await store.commit(transaction.take()));
    if (!committed.ok()) co_return committed;
  }
  garbage.wake_all_of(freed);
  for (const auto& [id, stripe] : freed) {
    chunks.forget(id, stripe);
    events.stripe_deleted(id);
  }
  co_return Status{};
}

std::string Core::capability(ChunkId chunk, uint32_t operations, Duration life) const {
  return rpc::make_capability(secret, chunk, operations, runtime.clock.wall_now() + life);
}

std::string Core::address_of(ServerId server) const {
  const ServerRecord* record = servers.find(server);
  if (!record || record->liveness == proto::ServerState::DEAD) return {};
  return record->stored.address();
}

bool Core::holds_chunks(ServerId server) const {
  const keys::Range range = keys::all(keys::Kind::kServerChunk, server.value);
  bool empty = true;
  store.scan(range.begin, range.end, [&](std::string_view, std::string_view) { return empty = false; });
  return !empty;
}

proto::ServerState Core::state_of(const ServerRecord& server) const {
  proto::ServerState state = servers.state_of(server);
  state.set_cached_chunks(caches.cached_chunks(server.id));
  // Its last heartbeat may not count yet what was placed there just now: it must not look drained.
  if (server.stored.draining() && state.chunks() == 0 && holds_chunks(server.id)) state.set_chunks(1);
  return state;
}

proto::Stripe Core::describe(StripeId id, const proto::StoredStripe& stored, uint32_t operations,
                             Duration life) const {
  proto::Stripe stripe;
  stripe.set_stripe_id(id.value);
  stripe.set_policy(stored.policy());
  stripe.set_length(stored.length());
  for (uint32_t i = 0; i < static_cast<uint32_t>(stored.chunks_size()); ++i) {
    const proto::StoredChunk& chunk = stored.chunks(static_cast<int>(i));
    proto::ChunkPlacement* placement = stripe.add_chunks();
    placement->set_index(i);
    placement->set_server_id(chunk.server_id());
    placement->set_address(address_of(ServerId{chunk.server_id()}));
    placement->set_length(chunk.length());
    placement->set_crc(chunk.crc());
    placement->set_available(chunks.available({id, i}, chunk));
    // Also for a chunk that is nowhere: it stands for the right to have it rebuilt for a read.
    if (operations != 0 && (chunk.server_id() != 0 || operations == rpc::kOpRead))
      placement->set_capability(capability({id, i}, operations, life));
  }
  return stripe;
}

std::vector<Candidate> Core::usable_servers(const std::vector<ServerId>& exclude) const {
  std::vector<Candidate> usable;
  for (const auto& [id, server] : servers.servers()) {
    if (server.liveness != proto::ServerState::ALIVE || server.stored.draining()) continue;
    if (std::find(exclude.begin(), exclude.end(), id) != exclude.end()) continue;
    // A server that has registered but not sent its first heartbeat yet is taken at its word.
    const bool measured = server.load.server_id() != 0;
    if (measured && server.load.free_bytes() < options.chunk_bytes) continue;
    usable.push_back({id, server.stored.rack(), measured ? server.load.free_bytes() : options.chunk_bytes});
  }
  return usable;
}

}  // namespace kintsugi::metaserver

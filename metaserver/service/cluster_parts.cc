#include "metaserver/service/cluster_parts.h"

#include <algorithm>

namespace kintsugi::metaserver {

ClusterParts::ClusterParts(const runtime::Runtime& runtime, const MetaServerOptions& options,
                           rpc::Secret secret, KeyValueStore& store)
    : stripe_ids(runtime, store, "stripe"),
      servers(options, runtime.clock),
      slow(servers, runtime.clock),
      caches(runtime.clock),
      chunks(servers, runtime.clock),
      health(chunks),
      garbage(chunks, runtime.clock),
      history(runtime, options, store, stripe_ids, servers),
      quarantine(options, runtime.clock),
      allocations(options, secret_, runtime.clock),
      uploads(allocations, options, runtime.clock),
      block_reports({servers, chunks, garbage, allocations, history, quarantine}, runtime.clock),
      compactions(runtime.clock),
      rebalancer(servers, chunks, slow, runtime.clock),
      servers_changed(runtime),
      clock_(runtime.clock),
      store_(store),
      secret_(secret) {}

bool ClusterParts::report_lost(ChunkId chunk, ServerId server, const std::string& why, bool proven) {
  const auto stripe = load_stripe(store_, chunk.stripe);
  if (!stripe || chunk.index >= static_cast<uint32_t>(stripe->chunks_size())) return false;
  if (!server || stripe->chunks(static_cast<int>(chunk.index)).server_id() != server.value) return false;
  if (chunks.set_lost(chunk, proven)) host->chunk_lost(chunk, why);
  if (proven) block_reports.note_distrusted(server, clock_.now() + ChunkMap::kDistrust);
  return true;
}

bool ClusterParts::holds_chunks(ServerId server) const {
  bool empty = true;
  scan_chunks_of(server, {}, [&](ChunkId) { return empty = false; });
  return !empty;
}

void ClusterParts::scan_chunks_of(ServerId server, ChunkId after,
                                  const std::function<bool(ChunkId)>& visit) const {
  // Any index may come from a repair manager.
  const ChunkId last{after.stripe, std::min(after.index, keys::kMaxIndex)};
  const std::string begin = keys::server_chunk(server, last) + '\0';
  const keys::Range range = keys::all(keys::Kind::kServerChunk, server.value);
  store_.scan(begin, range.end,
              [&](std::string_view key, std::string_view) { return visit(keys::chunk_of(key)); });
}

std::string ClusterParts::address_of(ServerId server) const {
  const ServerRecord* record = servers.find(server);
  if (!record || record->liveness == proto::ServerState::DEAD) return {};
  return record->stored.address();
}

proto::ServerState ClusterParts::state_of(const ServerRecord& server) const {
  proto::ServerState state = servers.state_of(server);
  state.set_cached_chunks(caches.cached_chunks(server.id));
  if (const proto::SlowServer* why = slow.find(server.id)) *state.mutable_slow() = *why;
  if (auto held = rebalancer.held_back(server.id)) *state.mutable_held_back() = std::move(*held);
  state.set_reported(block_reports.reported(server));
  // Its last heartbeat may not count yet what was placed there just now: it must not look drained.
  if (server.stored.draining() && state.chunks() == 0 && holds_chunks(server.id)) state.set_chunks(1);
  return state;
}

std::vector<proto::ServerName> ClusterParts::servers_not_reported() const {
  std::vector<proto::ServerName> names;
  for (const auto& [id, server] : servers.servers())
    if (server.liveness != proto::ServerState::DEAD && !block_reports.reported(server))
      names.push_back(servers.names().of(id));
  return names;
}

proto::StripeHealth ClusterParts::stripe_health() const {
  proto::StripeHealth known = health.counts();
  for (proto::ServerName& name : servers_not_reported())
    *known.add_not_reported() = std::move(name);
  return known;
}

proto::Stripe ClusterParts::describe(StripeId id, const proto::StoredStripe& stored, uint32_t operations,
                                     Duration life) const {
  const WallTime expiry = clock_.wall_now() + life;
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
      placement->set_capability(rpc::make_capability(secret_, {id, i}, operations, expiry));
  }
  return stripe;
}

UsableServers ClusterParts::usable_servers(const std::vector<ServerId>& exclude, uint64_t chunk_bytes) const {
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

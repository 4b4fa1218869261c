// What MetaServer offers to the host of the repair manager.
#include "metaserver/service/metaserver.h"
#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kCommitRepair{"metaserver.commit_repair"};

}  // namespace

std::vector<proto::ServerState> MetaServer::servers() const {
  std::vector<proto::ServerState> states;
  for (const auto& [id, server] : core_.servers.servers())
    states.push_back(core_.state_of(server));
  return states;
}

std::optional<proto::Stripe> MetaServer::stripe(StripeId id) const {
  const auto stored = load_stripe(core_.store, id);
  if (!stored) return std::nullopt;
  return core_.describe(id, *stored, 0, {});
}

std::string MetaServer::capability(ChunkId chunk, uint32_t operations, WallTime expiry) const {
  return rpc::make_capability(core_.secret, chunk, operations, expiry);
}

bool MetaServer::deletion_ordered(ChunkId chunk, ServerId server) const {
  return Garbage::pending(core_.store, server, chunk) && !core_.garbage.withdrawable(server, chunk);
}

bool MetaServer::deletion_pending(ChunkId chunk, ServerId server) const {
  if (!Garbage::pending(core_.store, server, chunk)) return false;
  return !core_.garbage.withdrawable(server, chunk) || !core_.garbage.postponed(core_.store, server, chunk);
}

std::vector<ChunkId> MetaServer::chunks_of(ServerId server) const {
  std::vector<ChunkId> chunks;
  scan_chunks_of(server, {}, [&](ChunkId chunk) {
    chunks.push_back(chunk);
    return true;
  });
  return chunks;
}

void MetaServer::scan_chunks_of(ServerId server, ChunkId after,
                                const std::function<bool(ChunkId)>& visit) const {
  const std::string begin = keys::server_chunk(server, after) + '\0';
  const keys::Range range = keys::all(keys::Kind::kServerChunk, server.value);
  core_.store.scan(begin, range.end,
                   [&](std::string_view key, std::string_view) { return visit(keys::chunk_of(key)); });
}

Status MetaServer::check_repair(ChunkId chunk, ServerId expected_old, ServerId server,
                                const proto::StoredStripe& stripe, bool to_be_deleted) const {
  if (chunk.index >= static_cast<uint32_t>(stripe.chunks_size())) {
    return {Code::kInvalidArgument, fmt::format("stripe {} has no chunk {}", chunk.stripe, chunk.index)};
  }
  if (!core_.servers.find(server))
    return {Code::kInvalidArgument, fmt::format("server {} is not known", server)};
  // What is on it was declared lost when it died: nobody would look for this chunk.
  if (core_.servers.is_dead(server)) return {Code::kUnavailable, fmt::format("server {} is dead", server)};
  const ServerId place{stripe.chunks(static_cast<int>(chunk.index)).server_id()};
  if (place != expected_old)
    return {Code::kConflict, fmt::format("chunk {} is on server {} by now", chunk, place)};
  for (int i = 0; i < stripe.chunks_size(); ++i) {
    if (i != static_cast<int>(chunk.index) && stripe.chunks(i).server_id() == server.value) {
      return {Code::kConflict, fmt::format("server {} holds chunk {}:{} already", server, chunk.stripe, i)};
    }
  }
  if (to_be_deleted) {
    return {Code::kConflict,
            fmt::format("server {} is about to delete an older copy of chunk {}", server, chunk)};
  }
  // It was there before it was committed, and taken for a stale copy.
  if (core_.garbage.deleted_lately(server, chunk))
    return {Code::kConflict, fmt::format("server {} was told to delete chunk {} meanwhile", server, chunk)};
  return {};
}

void MetaServer::repair_begins(ChunkId chunk) {
  core_.garbage.copy_begins(chunk);
}

Status MetaServer::can_commit_repair(ChunkId chunk, ServerId expected_old, ServerId server) const {
  const auto stripe = load_stripe(core_.store, chunk.stripe);
  if (!stripe) return {Code::kNotFound, fmt::format("stripe {} was deleted meanwhile", chunk.stripe)};
  return check_repair(chunk, expected_old, server, *stripe, deletion_pending(chunk, server));
}

ServerId MetaServer::place_of(ChunkId chunk) const {
  const auto stripe = load_stripe(core_.store, chunk.stripe);
  if (!stripe || chunk.index >= static_cast<uint32_t>(stripe->chunks_size())) return {};
  return ServerId{stripe->chunks(static_cast<int>(chunk.index)).server_id()};
}

asio::awaitable<Status> MetaServer::discard_copy(ChunkId chunk, ServerId server) {
  if (place_of(chunk) == server || !core_.servers.find(server)) co_return co_await core_.finish_read();
  Transaction transaction(core_.store);
  transaction.put(keys::garbage(server, chunk), "");
  KINTSUGI_CO_TRY(co_await core_.finish(Context{}, transaction));
  core_.garbage.wake(server);
  co_return Status{};
}

asio::awaitable<Status> MetaServer::commit_repair(Context context, ChunkId chunk, ServerId expected_old,
                                                  ServerId server) {
  sight::Module module{context, kCommitRepair};
  auto stripe = load_stripe(core_.store, chunk.stripe);
  if (!stripe) {
    const Status gone{Code::kNotFound, fmt::format("stripe {} was deleted meanwhile", chunk.stripe)};
    co_return module.finish(co_await core_.finish_read(gone));
  }
  Transaction transaction(core_.store);
  const Status allowed = check_repair(chunk, expected_old, server, *stripe, deletion_ordered(chunk, server));
  if (allowed.ok()) {
    core_.chunks.set_placed(chunk, server);
    // A copy there that waits for the chunk to be available elsewhere would wait for this very repair.
    if (Garbage::pending(core_.store, server, chunk)) transaction.remove(keys::garbage(server, chunk));
    if (server != expected_old) move_chunk(transaction, chunk, *stripe, server);
  }
  const Status status = module.finish(co_await core_.finish(module.context(), allowed, transaction));
  if (status.ok() && expected_old) core_.garbage.wake(expected_old);
  co_return status;
}

void MetaServer::report_lost(ChunkId chunk, ServerId server, const std::string& why) {
  server_service_.report_lost(chunk, server, why, false);
}

MetaServerStats MetaServer::stats() const {
  const auto totals = Reader(core_.store).get_message<proto::StoredTotals>(keys::totals());
  MetaServerStats stats;
  if (totals) {
    stats.files = totals->files();
    stats.directories = totals->directories();
    stats.stripes = totals->stripes();
  }
  stats.servers_alive = core_.servers.count(proto::ServerState::ALIVE);
  stats.servers_suspect = core_.servers.count(proto::ServerState::SUSPECT);
  stats.servers_dead = core_.servers.count(proto::ServerState::DEAD);
  stats.lost_chunks = core_.chunks.lost_chunks();
  stats.live_uploads = core_.uploads.live();
  return stats;
}

}  // namespace kintsugi::metaserver

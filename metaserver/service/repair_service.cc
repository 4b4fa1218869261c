#include "metaserver/service/repair_service.h"

#include "monitoring/sight/module.h"

namespace kintsugi::metaserver {
namespace {

constexpr sight::Site kCommitRepair{"metaserver.commit_repair"};

Status gone(StripeId stripe) {
  return {Code::kNotFound, fmt::format("stripe {} was deleted meanwhile", stripe)};
}

}  // namespace

bool RepairService::deletion_ordered(ChunkId chunk, ServerId server) const {
  return Garbage::pending(store_.kv, server, chunk) && !garbage_.withdrawable(server, chunk);
}

bool RepairService::deletion_pending(ChunkId chunk, ServerId server) const {
  if (!Garbage::pending(store_.kv, server, chunk)) return false;
  return !garbage_.withdrawable(server, chunk) || !garbage_.postponed(store_.kv, server, chunk);
}

Status RepairService::check(ChunkId chunk, ServerId expected_old, ServerId server,
                            const proto::StoredStripe& stripe, bool to_be_deleted) const {
  if (chunk.index >= static_cast<uint32_t>(stripe.chunks_size())) {
    return {Code::kInvalidArgument, fmt::format("stripe {} has no chunk {}", chunk.stripe, chunk.index)};
  }
  if (!servers_.find(server)) return {Code::kInvalidArgument, fmt::format("server {} is not known", server)};
  // The chunks of a dead server were told as lost when it died: nobody would look for this one.
  if (servers_.is_dead(server))
    return {Code::kUnavailable, fmt::format("server {} is dead", name_of(server))};
  const ServerId place{stripe.chunks(static_cast<int>(chunk.index)).server_id()};
  if (place != expected_old)
    return {Code::kConflict, fmt::format("chunk {} is on server {} by now", chunk, name_of(place))};
  for (int i = 0; i < stripe.chunks_size(); ++i) {
    if (i != static_cast<int>(chunk.index) && stripe.chunks(i).server_id() == server.value) {
      return {Code::kConflict,
              fmt::format("server {} holds chunk {}:{} already", name_of(server), chunk.stripe, i)};
    }
  }
  if (to_be_deleted) {
    return {Code::kConflict,
            fmt::format("server {} is about to delete an older copy of chunk {}", name_of(server), chunk)};
  }
  // The copy stood there before its commit. It was taken for a stale one, and the server has deleted it, or will; or it
  // was lost, which the server has told when nobody looked for the chunk there.
  if (garbage_.gone_lately(server, chunk))
    return {Code::kConflict,
            fmt::format("server {} has deleted or lost chunk {} meanwhile", name_of(server), chunk)};
  return {};
}

void RepairService::begins(ChunkId chunk, ServerId server) {
  garbage_.copy_begins(server, chunk);
}

Status RepairService::can_commit(ChunkId chunk, ServerId expected_old, ServerId server) const {
  const auto stripe = load_stripe(store_.kv, chunk.stripe);
  if (!stripe) return gone(chunk.stripe);
  return check(chunk, expected_old, server, *stripe, deletion_pending(chunk, server));
}

ServerId RepairService::place_of(ChunkId chunk) const {
  const auto stripe = load_stripe(store_.kv, chunk.stripe);
  if (!stripe || chunk.index >= static_cast<uint32_t>(stripe->chunks_size())) return {};
  return ServerId{stripe->chunks(static_cast<int>(chunk.index)).server_id()};
}

asio::awaitable<Status> RepairService::discard_copy(ChunkId chunk, ServerId server) {
  if (chunk.index > keys::kMaxIndex)
    co_return Status{Code::kInvalidArgument, fmt::format("no chunk has number {}", chunk.index)};
  if (place_of(chunk) == server || !servers_.find(server)) co_return co_await store_.finish_read(Context{});
  Transaction transaction(store_.kv);
  transaction.put(keys::garbage(server, chunk), "");
  KINTSUGI_CO_TRY(co_await store_.finish(Context{}, {}, transaction));
  garbage_.wake(server);
  co_return Status{};
}

asio::awaitable<Status> RepairService::commit(Context context, ChunkId chunk, ServerId expected_old,
                                              ServerId server) {
  sight::Module module{context, kCommitRepair};
  auto stripe = load_stripe(store_.kv, chunk.stripe);
  if (!stripe) co_return module.finish(co_await store_.finish_read(module.context(), gone(chunk.stripe)));
  Transaction transaction(store_.kv);
  const Status allowed = check(chunk, expected_old, server, *stripe, deletion_ordered(chunk, server));
  if (allowed.ok()) {
    // Before the commit suspends: a block report that was collected earlier may come in meanwhile.
    chunks_.set_placed(chunk, server);
    // The deletion of a copy that waits for the chunk to be available elsewhere would wait for this very repair. It may
    // be taken back: check() has seen that no server was ever told.
    if (Garbage::pending(store_.kv, server, chunk)) transaction.remove(keys::garbage(server, chunk));
    if (server != expected_old) move_chunk(transaction, chunk, *stripe, server);
  }
  const Status status = module.finish(co_await store_.finish(module.context(), allowed, transaction));
  if (status.ok() && expected_old) garbage_.wake(expected_old);
  co_return status;
}

}  // namespace kintsugi::metaserver

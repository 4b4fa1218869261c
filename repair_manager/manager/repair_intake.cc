#include "repair_manager/manager/repair_intake.h"

#include <algorithm>

#include "common/log/log.h"
#include "erasure/code.h"
#include "erasure/policy.h"
#include "repair_manager/plan/selection.h"

namespace kintsugi::repair_manager {
namespace {

/// The number of further losses that the stripe survives; negative: data is lost already.
Result<int32_t> spare_chunks(const StripeView& stripe) {
  KINTSUGI_ASSIGN(const erasure::Policy policy, erasure::Policy::parse(stripe.policy));
  if (stripe.chunks.size() != policy.chunks())
    return Status{Code::kInternal, fmt::format("stripe {} has {} chunks", stripe.id, stripe.chunks.size())};
  std::vector<uint32_t> available;
  for (const ChunkView& chunk : stripe.chunks)
    if (chunk.available || is_empty_data_chunk(chunk, policy.k)) available.push_back(chunk.index);
  return erasure::Code::get(policy)->spare(available);
}

/// The chunk's server is away for its maintenance, and comes back with it.
bool is_awaited(const ChunkView& chunk, const ServerTable& servers) {
  if (chunk.lost) return false;
  const ServerView* server = servers.find(chunk.server);
  return server != nullptr && !server->alive && server->maintenance_left > Duration::zero();
}

}  // namespace

void RepairIntake::add(std::vector<ChunkId> chunks, QueueEntry like) {
  if (chunks.empty()) return;
  std::reverse(chunks.begin(), chunks.end());
  chunks_ += chunks.size();
  batches_.push_back({std::move(chunks), std::move(like), next_number_++});
}

void RepairIntake::forget(const std::function<bool(const Batch&)>& forgotten) {
  std::erase_if(batches_, [&](const Batch& batch) {
    if (!forgotten(batch)) return false;
    chunks_ -= batch.chunks.size();
    return true;
  });
}

void RepairIntake::server_returned(ServerId server) {
  forget([server](const Batch& batch) { return batch.like.dead_server == server; });
}

void RepairIntake::moves_cancelled(ServerId from) {
  forget([from](const Batch& batch) { return batch.like.moving_from == from; });
}

void RepairIntake::keep_only(std::function<bool(StripeId)> mine) {
  keeping_ = {std::move(mine), next_number_};
}

size_t RepairIntake::moves() const {
  size_t moves = 0;
  for (const Batch& batch : batches_)
    if (batch.like.kind == WorkKind::kMove) moves += batch.chunks.size();
  return moves;
}

void RepairIntake::for_each_next(size_t most, const std::function<void(StripeId)>& visit) const {
  for (const Batch& batch : batches_) {
    for (auto chunk = batch.chunks.rbegin(); chunk != batch.chunks.rend(); ++chunk) {
      if (most-- == 0) return;
      if (!is_to_go(batch, *chunk)) visit(chunk->stripe);
    }
  }
}

std::optional<QueueEntry> RepairIntake::take(size_t& most) {
  while (!batches_.empty() && most > 0) {
    Batch& batch = batches_.front();
    const ChunkId chunk = batch.chunks.back();
    const bool kept = !is_to_go(batch, chunk);
    if (kept && !view_.fetched(chunk.stripe)) return {};
    std::optional<QueueEntry> entry;
    if (kept) entry = batch.like;
    if (kept) entry->chunk = chunk;
    --most;
    --chunks_;
    batch.chunks.pop_back();
    if (batch.chunks.empty()) batches_.pop_front();
    if (kept) return entry;
  }
  return {};
}

bool RepairIntake::look_up(QueueEntry& entry, const ServerTable& servers) const {
  const std::optional<StripeView> stripe = view_.stripe(entry.chunk.stripe);
  if (!stripe || entry.chunk.index >= stripe->chunks.size()) return false;
  const ChunkView& chunk = stripe->chunks[entry.chunk.index];
  entry.heat = chunk.heat;
  if (entry.kind == WorkKind::kMove) return chunk.available && chunk.server == entry.moving_from;
  if (chunk.available) return false;
  const Result<int32_t> spare = spare_chunks(*stripe);
  if (!spare) {
    log::error("chunk {} cannot be repaired: {}", entry.chunk, spare.error().to_string());
    return false;
  }
  entry.spare = *spare;
  entry.in_maintenance = std::ranges::all_of(stripe->chunks, [&servers](const ChunkView& chunk) {
    return chunk.available || chunk.length == 0 || is_awaited(chunk, servers);
  });
  if (is_urgent(entry)) entry.due = entry.lost_at;
  return true;
}

QueueEntry RepairIntake::renewed(const QueueEntry& entry, const ServerTable& servers) const {
  QueueEntry now = entry, renewed = entry;
  if (!view_.fetched(entry.chunk.stripe) || !look_up(now, servers)) return renewed;
  renewed.spare = now.spare;
  renewed.in_maintenance = now.in_maintenance;
  return renewed;
}

std::vector<QueueEntry> RepairIntake::lost_beside(const QueueEntry& entry, const ServerTable& servers) const {
  std::vector<QueueEntry> found;
  const std::optional<StripeView> stripe = view_.stripe(entry.chunk.stripe);
  for (const ChunkView& chunk : stripe->chunks) {
    if (chunk.index == entry.chunk.index || chunk.available || chunk.length == 0) continue;
    QueueEntry other = entry;
    other.chunk.index = chunk.index;
    other.heat = chunk.heat;
    other.dead_server = ServerId{};
    std::string reason = "found lost beside another chunk of its stripe";
    const ServerView* server = servers.find(chunk.server);
    if (chunk.server && (server == nullptr || !server->alive)) {
      if (!is_urgent(entry)) continue;
      other.dead_server = chunk.server;
      reason = fmt::format("server {} dead", view_.name_of(chunk.server));
    }
    other.reason = std::make_shared<const std::string>(std::move(reason));
    found.push_back(std::move(other));
  }
  return found;
}

}  // namespace kintsugi::repair_manager

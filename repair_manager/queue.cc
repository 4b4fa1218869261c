#include "repair_manager/queue.h"

#include <algorithm>
#include <utility>

#include "common/base/assert.h"

namespace kintsugi::repair_manager {

void RepairQueue::link(ChunkId chunk, Slot& slot, Place place) {
  slot.place = place;
  switch (place) {
    case Place::kReady:
      ready_.emplace(ReadyKey{slot.entry.spare, slot.entry.lost_at, slot.sequence}, chunk);
      break;
    case Place::kDelayed:
      delayed_.emplace(slot.entry.due, chunk);
      break;
    case Place::kUnrepairable:
      ++unrepairable_;
      [[fallthrough]];
    case Place::kNoDestination:
      aside_.insert(chunk);
      break;
  }
}

void RepairQueue::unlink(ChunkId chunk, Slot& slot) {
  switch (slot.place) {
    case Place::kReady:
      ready_.erase(ReadyKey{slot.entry.spare, slot.entry.lost_at, slot.sequence});
      break;
    case Place::kDelayed:
      delayed_.erase({slot.entry.due, chunk});
      break;
    case Place::kUnrepairable:
      --unrepairable_;
      [[fallthrough]];
    case Place::kNoDestination:
      aside_.erase(chunk);
      break;
  }
}

void RepairQueue::erase(Slots::iterator at) {
  unlink(at->first, at->second);
  const auto server = by_server_.find(at->second.entry.dead_server);
  if (server != by_server_.end()) {
    server->second.erase(at->first);
    if (server->second.empty()) by_server_.erase(server);
  }
  entries_.erase(at);
}

void RepairQueue::set_spare(StripeId stripe, int32_t spare, TimePoint now) {
  for (auto at = entries_.lower_bound({stripe, 0}); at != entries_.end() && at->first.stripe == stripe;
       ++at) {
    Slot& slot = at->second;
    const bool backing_off = slot.entry.attempt > 0;
    const bool hurry = slot.place == Place::kDelayed && spare <= kUrgentSpare && !backing_off;
    if (slot.entry.spare == spare && !hurry) continue;
    unlink(at->first, slot);
    slot.entry.spare = spare;
    if (hurry) slot.entry.due = std::min(slot.entry.due, now);
    link(at->first, slot, hurry ? Place::kReady : slot.place);
  }
}

bool RepairQueue::add(QueueEntry entry, TimePoint now) {
  const ChunkId chunk = entry.chunk;
  const int32_t spare = entry.spare;
  const auto known = entries_.find(chunk);
  if (known != entries_.end()) {
    Slot& slot = known->second;
    // The server's return no longer helps once the chunk itself was found bad.
    if (slot.entry.dead_server && !entry.dead_server) {
      by_server_[slot.entry.dead_server].erase(chunk);
      slot.entry.dead_server = ServerId{};
    }
    unlink(chunk, slot);
    slot.entry.due = std::min(slot.entry.due, entry.due);
    link(chunk, slot, slot.entry.due <= now ? Place::kReady : Place::kDelayed);
  } else {
    if (entries_.size() >= kMaxEntries) return false;
    if (entry.dead_server) by_server_[entry.dead_server].insert(chunk);
    const Place place = entry.due <= now ? Place::kReady : Place::kDelayed;
    Slot& slot =
        entries_.emplace(chunk, Slot{.entry = std::move(entry), .sequence = next_sequence_++}).first->second;
    link(chunk, slot, place);
  }
  set_spare(chunk.stripe, spare, now);
  return true;
}

TimePoint RepairQueue::advance(TimePoint now) {
  while (!delayed_.empty() && delayed_.begin()->first <= now) {
    const ChunkId chunk = delayed_.begin()->second;
    Slot& slot = entries_.at(chunk);
    unlink(chunk, slot);
    link(chunk, slot, Place::kReady);
  }
  return delayed_.empty() ? TimePoint::max() : delayed_.begin()->first;
}

std::optional<QueueEntry> RepairQueue::take(ChunkId chunk) {
  const auto at = entries_.find(chunk);
  if (at == entries_.end()) return std::nullopt;
  QueueEntry entry = at->second.entry;
  erase(at);
  return entry;
}

bool RepairQueue::put_aside(ChunkId chunk, Aside why) {
  Slot& slot = entries_.at(chunk);
  KINTSUGI_ASSERT(slot.place == Place::kReady);
  unlink(chunk, slot);
  link(chunk, slot, why == Aside::kUnrepairable ? Place::kUnrepairable : Place::kNoDestination);
  return !std::exchange(slot.was_aside, true);
}

void RepairQueue::release_aside() {
  const std::set<ChunkId> waiting = aside_;
  for (ChunkId chunk : waiting) {
    Slot& slot = entries_.at(chunk);
    unlink(chunk, slot);
    link(chunk, slot, Place::kReady);
  }
}

size_t RepairQueue::server_returned(ServerId server) {
  const auto at = by_server_.find(server);
  if (at == by_server_.end()) return 0;
  const std::set<ChunkId> chunks = at->second;
  for (ChunkId chunk : chunks)
    erase(entries_.find(chunk));
  return chunks.size();
}

void RepairQueue::stripe_deleted(StripeId stripe) {
  auto at = entries_.lower_bound({stripe, 0});
  while (at != entries_.end() && at->first.stripe == stripe) {
    const auto victim = at++;
    erase(victim);
  }
}

void RepairQueue::keep_only(const std::function<bool(StripeId)>& mine) {
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto entry = at++;
    if (!mine(entry->first.stripe)) erase(entry);
  }
}

}  // namespace kintsugi::repair_manager

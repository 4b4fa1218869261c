#include "repair_manager/joint/queue.h"

#include <algorithm>
#include <utility>

#include "common/base/assert.h"

namespace kintsugi::repair_manager {

namespace {

std::pair<WorkKind, ServerId> owner_of(const QueueEntry& entry) {
  return {entry.kind, entry.kind == WorkKind::kMove ? entry.moving_from : entry.dead_server};
}

}  // namespace

RepairQueue::ReadyKey RepairQueue::ready_key(const Slot& slot) {
  return {slot.entry.kind, slot.entry.spare, -static_cast<int32_t>(heat_class(slot.entry.heat)),
          slot.entry.lost_at, slot.sequence};
}

void RepairQueue::link(ChunkId chunk, Slot& slot, Place place) {
  slot.place = place;
  switch (place) {
    case Place::kReady: ready_.emplace(ready_key(slot), &slot.entry); break;
    case Place::kDelayed: delayed_.emplace(slot.entry.due, chunk); break;
    case Place::kUnrepairable: ++unrepairable_; [[fallthrough]];
    case Place::kNoDestination: blocked_.insert(chunk); break;
  }
}

void RepairQueue::unlink(ChunkId chunk, Slot& slot) {
  switch (slot.place) {
    case Place::kReady: ready_.erase(ready_key(slot)); break;
    case Place::kDelayed: delayed_.erase({slot.entry.due, chunk}); break;
    case Place::kUnrepairable: --unrepairable_; [[fallthrough]];
    case Place::kNoDestination:
      if (blocked_.erase(chunk) == 0) waking_.erase(chunk);
      break;
  }
}

void RepairQueue::leave_owner(const QueueEntry& entry) {
  const auto owner = by_server_.find(owner_of(entry));
  if (owner == by_server_.end()) return;
  owner->second.erase(entry.chunk);
  if (owner->second.empty()) by_server_.erase(owner);
}

void RepairQueue::erase(Slots::iterator at) {
  unlink(at->first, at->second);
  leave_owner(at->second.entry);
  if (at->second.entry.kind == WorkKind::kMove) --moves_;
  entries_.erase(at);
}

void RepairQueue::insert(QueueEntry entry, TimePoint now) {
  const ChunkId chunk = entry.chunk;
  const auto owner = owner_of(entry);
  if (owner.second) by_server_[owner].insert(chunk);
  if (entry.kind == WorkKind::kMove) ++moves_;
  const Place place = entry.due <= now ? Place::kReady : Place::kDelayed;
  Slot slot{.entry = std::move(entry), .sequence = next_sequence_++};
  link(chunk, entries_.emplace(chunk, std::move(slot)).first->second, place);
}

void RepairQueue::set_spare(const QueueEntry& like, TimePoint now) {
  const StripeId stripe = like.chunk.stripe;
  for (auto at = entries_.lower_bound({stripe, 0}); at != entries_.end() && at->first.stripe == stripe;
       ++at) {
    Slot& slot = at->second;
    if (slot.entry.kind == WorkKind::kMove) continue;
    const bool backing_off = slot.entry.attempt > 0;
    const bool hurry = slot.place == Place::kDelayed && is_urgent(like) && !backing_off;
    slot.entry.in_maintenance = like.in_maintenance;
    if (slot.entry.spare == like.spare && !hurry) continue;
    unlink(at->first, slot);
    slot.entry.spare = like.spare;
    if (hurry) slot.entry.due = std::min(slot.entry.due, now);
    link(at->first, slot, hurry ? Place::kReady : slot.place);
  }
}

bool RepairQueue::add(QueueEntry entry, TimePoint now) {
  const ChunkId chunk = entry.chunk;
  const WorkKind kind = entry.kind;
  const QueueEntry like{.chunk = chunk, .spare = entry.spare, .in_maintenance = entry.in_maintenance};
  auto known = entries_.find(chunk);
  const bool forgotten = remember(chunk);
  if (known != entries_.end() && (forgotten || is_to_go(*known))) {
    erase(known);
    known = entries_.end();
  }
  if (known != entries_.end() && known->second.entry.kind == WorkKind::kMove && kind == WorkKind::kRepair) {
    erase(known);
    known = entries_.end();
  }
  if (known == entries_.end()) {
    if (entries_.size() >= kMaxEntries) return false;
    insert(std::move(entry), now);
  } else if (known->second.entry.kind == kind) {
    Slot& slot = known->second;
    // The server's return no longer helps once the chunk itself was found bad.
    if (slot.entry.dead_server && !entry.dead_server) {
      leave_owner(slot.entry);
      slot.entry.dead_server = ServerId{};
    }
    unlink(chunk, slot);
    slot.entry.heat = std::max(slot.entry.heat, entry.heat);
    slot.entry.due = std::min(slot.entry.due, entry.due);
    link(chunk, slot, slot.entry.due <= now ? Place::kReady : Place::kDelayed);
  }
  if (kind == WorkKind::kRepair) set_spare(like, now);
  return true;
}

TimePoint RepairQueue::advance(TimePoint now) {
  bool more = keep_some();
  more = forget_some() || more;
  for (size_t moved = 0; !delayed_.empty() && delayed_.begin()->first <= now; ++moved) {
    if (moved == kMovedAtOnce) return now;
    const ChunkId chunk = delayed_.begin()->second;
    Slot& slot = entries_.at(chunk);
    unlink(chunk, slot);
    link(chunk, slot, Place::kReady);
  }
  if (!waking_.empty()) {
    more = wake_some() || more;
  } else if (!blocked_.empty() && now >= retry_blocked_at_) {
    unblock_all();
  }
  if (more || !waking_.empty()) return now;
  const TimePoint due = delayed_.empty() ? TimePoint::max() : delayed_.begin()->first;
  return blocked_.empty() ? due : std::min(due, retry_blocked_at_);
}

std::vector<const QueueEntry*> RepairQueue::ready_of(StripeId stripe) const {
  std::vector<const QueueEntry*> found;
  for (auto at = entries_.lower_bound({stripe, 0}); at != entries_.end() && at->first.stripe == stripe; ++at)
    if (at->second.place == Place::kReady && at->second.entry.kind == WorkKind::kRepair)
      found.push_back(&at->second.entry);
  return found;
}

void RepairQueue::heat_up(ChunkId chunk) {
  const auto at = entries_.find(chunk);
  if (at == entries_.end() || at->second.entry.kind == WorkKind::kMove) return;
  Slot& slot = at->second;
  const Place place = slot.place;
  unlink(chunk, slot);
  slot.entry.heat += 1;
  link(chunk, slot, place);
}

bool RepairQueue::is_ready(ChunkId chunk) const {
  const auto at = entries_.find(chunk);
  return at != entries_.end() && at->second.place == Place::kReady;
}

std::optional<QueueEntry> RepairQueue::take(ChunkId chunk) {
  const auto at = entries_.find(chunk);
  if (at == entries_.end()) return std::nullopt;
  QueueEntry entry = at->second.entry;
  erase(at);
  return entry;
}

bool RepairQueue::block(ChunkId chunk, Lacking what, TimePoint now) {
  Slot& slot = entries_.at(chunk);
  KINTSUGI_ASSERT(slot.place == Place::kReady);
  if (blocked_.empty()) retry_blocked_at_ = now + retry_after_;
  unlink(chunk, slot);
  link(chunk, slot, what == Lacking::kHelpers ? Place::kUnrepairable : Place::kNoDestination);
  return !std::exchange(slot.was_blocked, true);
}

void RepairQueue::unblock_all() {
  wake_again_ = !waking_.empty();
  if (wake_again_) return;
  // Most of them will be blocked again in the next turn, so the time until then grows with their number.
  retry_after_ = std::max<Duration>(kBlockedRetry, kRetryCost * blocked_.size());
  waking_.swap(blocked_);
  wake_some();
}

bool RepairQueue::wake_some() {
  for (size_t moved = 0; !waking_.empty() && moved < kMovedAtOnce; ++moved) {
    const ChunkId chunk = *waking_.begin();
    Slot& slot = entries_.at(chunk);
    unlink(chunk, slot);
    link(chunk, slot, Place::kReady);
  }
  if (waking_.empty() && std::exchange(wake_again_, false)) waking_.swap(blocked_);
  return !waking_.empty();
}

size_t RepairQueue::forget_all(Owner owner) {
  auto chunks = by_server_.extract(owner);
  if (chunks.empty()) return 0;
  const size_t count = chunks.mapped().size();
  forgetting_.push_back(std::move(chunks.mapped()));
  forget_some();
  return count;
}

bool RepairQueue::forget_some() {
  for (size_t forgotten = 0; !forgetting_.empty() && forgotten < kMovedAtOnce; ++forgotten) {
    std::set<ChunkId>& chunks = forgetting_.front();
    if (!chunks.empty()) {
      const auto at = entries_.find(*chunks.begin());
      chunks.erase(chunks.begin());
      if (at != entries_.end()) erase(at);
    }
    if (chunks.empty()) forgetting_.pop_front();
  }
  return !forgetting_.empty();
}

bool RepairQueue::remember(ChunkId chunk) {
  bool was_there = false;
  for (std::set<ChunkId>& chunks : forgetting_)
    was_there = chunks.erase(chunk) > 0 || was_there;
  return was_there;
}

size_t RepairQueue::server_returned(ServerId server) {
  return forget_all({WorkKind::kRepair, server});
}

size_t RepairQueue::moves_cancelled(ServerId from) {
  return forget_all({WorkKind::kMove, from});
}

void RepairQueue::stripe_deleted(StripeId stripe) {
  auto at = entries_.lower_bound({stripe, 0});
  while (at != entries_.end() && at->first.stripe == stripe) {
    const auto victim = at++;
    erase(victim);
  }
}

void RepairQueue::keep_only(std::function<bool(StripeId)> mine) {
  keeping_ = Keeping{std::move(mine), next_sequence_, {}};
  keep_some();
}

bool RepairQueue::is_to_go(const Slots::value_type& entry) const {
  return keeping_ && entry.second.sequence < keeping_->before && !keeping_->mine(entry.first.stripe);
}

bool RepairQueue::keep_some() {
  if (!keeping_) return false;
  auto at = entries_.lower_bound(keeping_->next);
  for (size_t looked_at = 0; at != entries_.end() && looked_at < kMovedAtOnce; ++looked_at) {
    const auto entry = at++;
    if (is_to_go(*entry)) erase(entry);
  }
  if (at == entries_.end()) {
    keeping_.reset();
  } else {
    keeping_->next = at->first;
  }
  return keeping_.has_value();
}

}  // namespace kintsugi::repair_manager

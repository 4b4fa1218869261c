#include "tests/simulation/runtime/sim_clock.h"

#include <algorithm>

#include "common/base/assert.h"

namespace kintsugi::simulation {
namespace {
/// The wall time at the beginning: 2024-01-01T00:00:00Z.
constexpr WallTime kWallStart{std::chrono::seconds(1'704'067'200)};
constexpr size_t kCompactFrom = 1024;
}  // namespace

WallTime SimClock::wall_now() const {
  return kWallStart + elapsed();
}

runtime::TimerId SimClock::call_at(TimePoint due, std::function<void()> callback) {
  KINTSUGI_ASSERT(callback);
  uint32_t slot;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[slot].callback = std::move(callback);
  slots_[slot].sequence = next_sequence_++;
  heap_.push_back({std::max(due, now_), slots_[slot].sequence, slot});
  std::push_heap(heap_.begin(), heap_.end(), Later{});
  ++live_;
  return id_of(slot);
}

bool SimClock::cancel(runtime::TimerId timer) {
  const uint64_t id = static_cast<uint64_t>(timer);
  const uint32_t slot = static_cast<uint32_t>(id) - 1;
  if (slot >= slots_.size() || slots_[slot].sequence == 0 || slots_[slot].generation != id >> 32)
    return false;
  release(slot);
  if (heap_.size() > kCompactFrom && heap_.size() > 2 * live_) compact();
  return true;
}

std::function<void()> SimClock::release(uint32_t slot) {
  auto callback = std::move(slots_[slot].callback);
  slots_[slot].callback = nullptr;
  slots_[slot].sequence = 0;
  ++slots_[slot].generation;
  free_slots_.push_back(slot);
  --live_;
  return callback;
}

void SimClock::pop() {
  std::pop_heap(heap_.begin(), heap_.end(), Later{});
  heap_.pop_back();
}

void SimClock::compact() {
  std::erase_if(heap_, [this](const Entry& entry) { return stale(entry); });
  std::make_heap(heap_.begin(), heap_.end(), Later{});
}

std::optional<TimePoint> SimClock::next_due() {
  while (!heap_.empty() && stale(heap_.front()))
    pop();
  if (heap_.empty() || heap_.front().due == TimePoint::max()) return std::nullopt;
  return heap_.front().due;
}

void SimClock::fire_next() {
  const Entry entry = heap_.front();
  KINTSUGI_ASSERT(!stale(entry) && entry.due >= now_);
  pop();
  now_ = entry.due;
  hash_.event(now_.time_since_epoch().count(), entry.sequence);
  firing_ = id_of(entry.slot);
  auto callback = release(entry.slot);
  callback();
}

void SimClock::advance_to(TimePoint time) {
  KINTSUGI_ASSERT(time >= now_);
  now_ = time;
}

void SimClock::clear() {
  // Objects that a callback holds may schedule more when they are destroyed.
  while (live_ > 0) {
    for (uint32_t slot = 0; slot < slots_.size(); ++slot) {
      if (slots_[slot].sequence != 0) release(slot);
    }
  }
  heap_.clear();
}

}  // namespace kintsugi::simulation

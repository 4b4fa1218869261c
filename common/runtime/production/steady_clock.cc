#include "common/runtime/production/steady_clock.h"

#include <utility>

#include "common/base/assert.h"

namespace kintsugi::runtime {

namespace {

TimerId make_id(uint32_t generation, uint32_t slot) {
  return TimerId{uint64_t{generation} << 32 | slot};
}

}  // namespace

SteadyClock::SteadyClock(asio::io_context& io) : timer_(io) {}

TimerId SteadyClock::call_at(TimePoint due, std::function<void()> callback) {
  KINTSUGI_ASSERT(callback);
  if (unused_slots_.empty()) {
    unused_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  uint32_t slot = unused_slots_.back();
  unused_slots_.pop_back();
  slots_[slot].callback = std::move(callback);
  heap_.push_back({due, next_sequence_++, slot});
  sift_up(static_cast<uint32_t>(heap_.size() - 1));
  if (due < armed_for_) arm(due);
  return make_id(slots_[slot].generation, slot);
}

bool SteadyClock::cancel(TimerId timer) {
  auto slot = static_cast<uint32_t>(static_cast<uint64_t>(timer));
  auto generation = static_cast<uint32_t>(static_cast<uint64_t>(timer) >> 32);
  if (slot >= slots_.size() || slots_[slot].generation != generation) return false;
  take(slots_[slot].position);
  return true;
}

void SteadyClock::arm(TimePoint due) {
  armed_for_ = due;
  timer_.expires_at(due);  // cancels the wait for the later time
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error) fire();
  });
}

void SteadyClock::fire() {
  // A wait that was replaced may still have been queued as expired: then the clock is armed for another time
  // and this call merely runs what is due.
  TimePoint now = this->now();
  if (armed_for_ <= now) armed_for_ = TimePoint::max();
  // Timers made by these callbacks wait for the next round, so that the loop ends and sockets get their turn.
  uint64_t made_before = next_sequence_;
  while (!heap_.empty() && heap_[0].due <= now && heap_[0].sequence < made_before)
    take(0)();
  if (!heap_.empty() && heap_[0].due < armed_for_) arm(heap_[0].due);
}

std::function<void()> SteadyClock::take(uint32_t position) {
  uint32_t slot = heap_[position].slot;
  std::function<void()> callback = std::exchange(slots_[slot].callback, nullptr);
  if (++slots_[slot].generation == 0) slots_[slot].generation = 1;  // keeps TimerId::kNone unused
  unused_slots_.push_back(slot);

  Node last = heap_.back();
  heap_.pop_back();
  if (position < heap_.size()) {
    place(position, last);
    sift_up(position);
    sift_down(slots_[last.slot].position);
  }
  return callback;
}

void SteadyClock::place(uint32_t position, const Node& node) {
  heap_[position] = node;
  slots_[node.slot].position = position;
}

void SteadyClock::sift_up(uint32_t position) {
  Node node = heap_[position];
  while (position > 0) {
    uint32_t parent = (position - 1) / 2;
    if (!(node < heap_[parent])) break;
    place(position, heap_[parent]);
    position = parent;
  }
  place(position, node);
}

void SteadyClock::sift_down(uint32_t position) {
  Node node = heap_[position];
  for (;;) {
    size_t child = size_t{2} * position + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
    if (!(heap_[child] < node)) break;
    place(position, heap_[child]);
    position = static_cast<uint32_t>(child);
  }
  place(position, node);
}

}  // namespace kintsugi::runtime

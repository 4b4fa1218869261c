/// Virtual time: sleeping callbacks in a queue ordered by (due time, order of creation).
#pragma once

#include <optional>
#include <vector>

#include "common/runtime/clock.h"
#include "tests/simulation/runtime/event_hash.h"

namespace kintsugi::simulation {

/// Time stands still until the Simulation moves it to the next due callback.
class SimClock final : public runtime::Clock {
 public:
  explicit SimClock(EventHash& hash) : hash_(hash) {}

  TimePoint now() const override { return now_; }
  /// A fixed date plus the virtual time passed. A node may see another wall time (SimNode::set_wall_offset).
  WallTime wall_now() const override;
  runtime::TimerId call_at(TimePoint due, std::function<void()> callback) override;
  bool cancel(runtime::TimerId timer) override;

  Duration elapsed() const { return now_ - kStart; }
  size_t pending() const { return live_; }

  /// When the next callback is due, for the Simulation. One due at TimePoint::max() never runs, and is
  /// not reported here.
  std::optional<TimePoint> next_due();
  /// The timer whose callback runs now, or ran last.
  runtime::TimerId firing() const { return firing_; }
  void fire_next();  ///< moves to the next due time and runs one callback; next_due() must have a value
  void advance_to(TimePoint time);
  void clear();  ///< drops every callback without running it

 private:
  /// The beginning of time is not zero, so that a default TimePoint lies in the past.
  static constexpr TimePoint kStart{std::chrono::hours(1)};

  struct Slot {
    std::function<void()> callback;
    uint64_t sequence = 0;  ///< that of the callback in this slot; 0 when free
    uint32_t generation = 0;
  };
  struct Entry {
    TimePoint due;
    uint64_t sequence;
    uint32_t slot;
  };
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.due != b.due ? a.due > b.due : a.sequence > b.sequence;
    }
  };
  bool stale(const Entry& entry) const { return slots_[entry.slot].sequence != entry.sequence; }
  runtime::TimerId id_of(uint32_t slot) const {
    return runtime::TimerId{(uint64_t{slots_[slot].generation} << 32) | (slot + 1)};
  }
  std::function<void()> release(uint32_t slot);
  void pop();
  void compact();

  EventHash& hash_;
  TimePoint now_ = kStart;
  runtime::TimerId firing_ = runtime::TimerId::kNone;
  uint64_t next_sequence_ = 1;
  size_t live_ = 0;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  /// Min-heap by Later; entries of cancelled callbacks stay until met or compacted.
  std::vector<Entry> heap_;
};

}  // namespace kintsugi::simulation

/// The log that one thread writes for one recorder: a ring of events and a table of path totals. There are one writer,
/// any number of readers, and no locks.
#pragma once

#include <atomic>
#include <deque>
#include <vector>

#include "monitoring/sight/recorder.h"
#include "monitoring/sight/tables/zeroed_array.h"

namespace kintsugi::sight {

/// Events as atomic words guarded by a sequence number each (a seqlock), so that a reader never blocks the
/// writer and sees an event whole or not at all.
class EventRing {
 public:
  explicit EventRing(size_t events);
  /// To be called by the owning thread only.
  void push(const Event& event);
  /// Collects events, newest first; may be called by any thread.
  void collect(size_t at_most, std::vector<Event>& newest) const;

 private:
  static constexpr size_t kWords = sizeof(Event) / 8;
  struct Slot {
    std::atomic<uint64_t> sequence{0};  ///< 0: empty; odd: being written; 2 * (push number + 1): complete
    std::array<std::atomic<uint64_t>, kWords> words{};
  };
  ZeroedArray<Slot> slots_;
  std::atomic<uint64_t> pushed_{0};
  /// Slot of the next push; saves a division of the push number.
  size_t next_ = 0;
};

/// Open-addressed table from path to totals. Entries are made as paths come and never removed, so a reader may walk it
/// at any time.
class PathTable {
 public:
  /// What takes so long is recorded one by one, also in a task that is recorded lightly.
  static constexpr Duration kAlwaysRecorded = std::chrono::milliseconds(1);

  explicit PathTable(size_t max_paths);

  // ---- to be called by the owning thread only

  /// Counts a visit in a task that is recorded lightly together with the next one for which add() is called. False:
  /// nothing was done, and add() is to be called for this one.
  bool only_counts(uint64_t path) {
    for (size_t i = path & mask_;; i = (i + 1) & mask_) {
      Entry* const found = slots_[i].load(std::memory_order_relaxed);
      if (found == nullptr) return false;
      if (found->path != path) continue;
      const uint64_t uncounted = found->uncounted.load(std::memory_order_relaxed);
      if (uncounted >= CalmRoles::kMostLight) return false;
      found->uncounted.store(uncounted + 1, std::memory_order_relaxed);
      return true;
    }
  }
  void add(const Event& event, uint64_t parent_path, const LiveWork::Closed& closed);

  // ---- for any thread

  /// Adds to the entries of `into` with an equal path, whose places are in `places`; may be called by any thread.
  void collect(std::vector<PathTotals>& into, std::unordered_map<uint64_t, size_t>& places) const;
  /// Adds how many executions of each site have ended.
  void count_ended(std::unordered_map<const Site*, uint64_t>& into) const;

 private:
  struct Entry {
    const uint64_t path;
    const uint64_t parent_path;
    const Site* const site;
    const uint64_t role_path;
    const std::source_location where;
    std::atomic<uint64_t> uncounted{0};  ///< visits since the last one that was counted
    std::atomic<uint64_t> count{0}, errors{0}, total_ns{0}, self_ns{0};
    std::array<std::atomic<uint64_t>, PathTotals::kBuckets> histogram{};
  };
  Entry& entry_of(uint64_t path, uint64_t parent_path, const Site& site, const LiveWork::Closed& closed);

  std::vector<std::atomic<Entry*>> slots_;  ///< entries by slot; null: the slot is free
  std::deque<Entry> entries_;  ///< entries that the slots point to, which never move; only the writer uses it
  const size_t mask_, max_paths_;
};

/// The histogram bucket of a duration: see PathTotals.
size_t duration_bucket(Duration duration);

}  // namespace kintsugi::sight

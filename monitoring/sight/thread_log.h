/// The log that one thread writes for one recorder: a ring of events and a table of path totals. There are one writer,
/// any number of readers, and no locks.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
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
  explicit PathTable(size_t max_paths);
  /// To be called by the owning thread only.
  void add(const Event& event, uint64_t parent_path, const LiveWork::Closed& closed);
  /// Adds to the entries of `into` with an equal path, whose places are in `places`; may be called by any thread.
  void collect(std::vector<PathTotals>& into, std::unordered_map<uint64_t, size_t>& places) const;

 private:
  struct Entry {
    const uint64_t path;
    const uint64_t parent_path;
    const Site* const site;
    const uint64_t role_path;
    const std::source_location where;
    std::atomic<uint64_t> count{0}, errors{0}, total_ns{0}, self_ns{0};
    std::array<std::atomic<uint64_t>, PathTotals::kBuckets> histogram{};
  };
  Entry& entry_of(uint64_t path, uint64_t parent_path, const Site& site, const LiveWork::Closed& closed);

  std::vector<std::atomic<Entry*>> slots_;  ///< null: the slot is free
  std::deque<Entry> entries_;  ///< entries that the slots point to, which never move; only the writer uses it
  const size_t mask_, max_paths_;
};

/// The histogram bucket of a duration: see PathTotals.
size_t duration_bucket(Duration duration);

}  // namespace kintsugi::sight

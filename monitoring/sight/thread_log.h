/// The log that one thread writes for one recorder: a ring of events and a table of path totals. There are one writer,
/// any number of readers, and no locks.
#pragma once

#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#include "monitoring/sight/recorder.h"

namespace kintsugi::sight {

/// An array whose memory the kernel gives page by page, as it is touched first: a daemon that records little keeps
/// little, and nothing is written at its start. REQUIRES: a T of zero bytes is a T as its constructor makes it.
template <class T>
class ZeroedArray {
 public:
  static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= alignof(std::max_align_t));

  explicit ZeroedArray(size_t size)
      : memory_(std::calloc(size, sizeof(T)), std::free), items_(static_cast<T*>(memory_.get()), size) {
    if (memory_ == nullptr) throw std::bad_alloc();
  }
  size_t size() const { return items_.size(); }
  T& operator[](size_t i) { return items_[i]; }
  const T& operator[](size_t i) const { return items_[i]; }

 private:
  std::unique_ptr<void, void (*)(void*)> memory_;
  std::span<T> items_;
};

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
  static constexpr size_t kWords = (sizeof(Event) + 7) / 8;
  struct Slot {
    std::atomic<uint64_t> sequence{0};  ///< 0 empty, odd being written, 2 * (push number + 1) whole
    std::array<std::atomic<uint64_t>, kWords> words{};
  };
  ZeroedArray<Slot> slots_;
  std::atomic<uint64_t> pushed_{0};
};

/// Open-addressed table from path to totals. Entries are made as paths come and never removed, so a reader may walk it at
/// any time.
class PathTable {
 public:
  explicit PathTable(size_t max_paths);
  /// To be called by the owning thread only.
  void add(uint64_t path, uint64_t parent_path, const Site& site, Duration duration, bool error);
  /// Adds to the entries of `into` with an equal path; may be called by any thread.
  void collect(std::vector<PathTotals>& into) const;

 private:
  struct Entry {
    const uint64_t path;
    const uint64_t parent_path;
    const Site* const site;
    std::atomic<uint64_t> count{0}, errors{0}, total_ns{0};
    std::array<std::atomic<uint64_t>, PathTotals::kBuckets> histogram{};
  };
  Entry& entry_of(uint64_t path, uint64_t parent_path, const Site& site);

  std::vector<std::atomic<Entry*>> slots_;  ///< null: free
  std::deque<Entry> entries_;  ///< what the slots point to, which never moves; for the writer only
  const size_t mask_, max_paths_;
};

/// The histogram bucket of a duration: see PathTotals.
size_t duration_bucket(Duration duration);

}  // namespace kintsugi::sight

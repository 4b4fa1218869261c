/// What the metaserver said about where a file's bytes are.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <vector>

#include "client/lib/read/located_extent.h"
#include "common/runtime/clock.h"

namespace kintsugi::client {

class Locations;

/// How many extents all files together remember. One whose bytes came along counts for as many as take that much
/// memory.
struct LocationBudget {
  size_t limit = 0;
  size_t used = 0;
  /// Files of which something is known. The one that was read longest ago is the first.
  std::list<Locations*> known;
};

/// Single-threaded. Pure but for the time that callers tell it.
class Locations {
 public:
  /// Capabilities are good for an hour.
  static constexpr Duration kLifetime = std::chrono::minutes(45);

  explicit Locations(LocationBudget& budget) : budget_(budget) {}
  ~Locations() { forget_all(); }
  Locations(const Locations&) = delete;

  /// While one exists, what is known of its range is not forgotten to make room. Whoever needs several answers for a
  /// range has one: else files that together need more than the budget would ask for ever. So the budget may be exceeded,
  /// by the ranges that are asked for at one time.
  class Pin {
   public:
    /// `of` must outlive it.
    Pin(Locations& of, uint64_t begin, uint64_t end);
    ~Pin() { of_.pinned_.erase(at_); }
    Pin(const Pin&) = delete;

   private:
    Locations& of_;
    const std::multimap<uint64_t, uint64_t>::iterator at_;
  };

  /// Everything is known from `offset` up to the result, which is `offset` when nothing is.
  uint64_t known_from(uint64_t offset, TimePoint now);
  /// The extents that touch the range, in order. REQUIRES: known_from(begin) >= end.
  std::vector<LocatedExtent> find(uint64_t begin, uint64_t end) const;
  /// The first byte from `offset` on that an extent has (none: `end`), or does not have. REQUIRES: known_from(offset)
  /// >= end.
  uint64_t next_data(uint64_t offset, uint64_t end) const;
  uint64_t next_hole(uint64_t offset, uint64_t end) const;

  /// `extents`, which are disjoint and in order, are all that there is between begin and end. When there would be too
  /// much, files are forgotten that were read longest ago, and at last the rest of this one.
  void learn(uint64_t begin, uint64_t end, const std::vector<LocatedExtent>& extents, TimePoint now);
  void forget(uint64_t begin, uint64_t end);
  void forget_all();
  /// Grows with every forget(). What was asked for at an epoch may be learned, as far as nothing of it was forgotten
  /// since.
  uint64_t epoch() const { return epoch_; }
  /// Shrinks [from, to) to a part around [begin, end) of which nothing was forgotten since; false when there is none.
  bool still_fresh(uint64_t epoch, uint64_t begin, uint64_t end, uint64_t& from, uint64_t& to) const;

 private:
  static constexpr size_t kRemembered = 64;  ///< ranges in `forgotten_`
  struct Forgotten {
    uint64_t begin = 0, end = 0;
  };

  void drop(uint64_t begin, uint64_t end);
  void drop_unpinned();
  void make_room(size_t weight);
  void note_read();  ///< this file is now the last that was read

  LocationBudget& budget_;
  std::map<uint64_t, LocatedExtent> extents_;  ///< key: offset in the file; cut to the known ranges
  std::map<uint64_t, uint64_t> known_;         ///< begin -> end; the ranges neither overlap nor touch
  std::multimap<uint64_t, uint64_t> pinned_;   ///< begin -> end, of each Pin
  std::optional<std::list<Locations*>::iterator> in_budget_;  ///< its place in LocationBudget::known
  TimePoint oldest_{};  ///< when the oldest of the known ranges was looked up
  uint64_t epoch_ = 0;
  std::deque<Forgotten> forgotten_;  ///< what the latest epochs forgot; the last entry belongs to epoch_
};

}  // namespace kintsugi::client

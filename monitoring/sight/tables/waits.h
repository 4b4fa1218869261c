/// Totals of waits that ended, by where the task stood and what it waited for; and the last of those that ended in
/// vain.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "monitoring/sight/tables/entry_index.h"
#include "monitoring/sight/tables/records.h"

namespace kintsugi::sight {

struct WaitTotals {
  uint64_t target;
  uint32_t state;
  uint64_t count, ns;
};

/// One thread writes; any may read. A full table drops and counts.
class WaitTable {
 public:
  /// REQUIRES: limit < UINT16_MAX.
  explicit WaitTable(uint32_t limit);

  /// For the writer.
  [[gnu::always_inline]] void count(uint16_t state, uint64_t target, int64_t ns) {
    uint16_t number = index_.place_of(hash_of(state, target), [&](uint16_t each) {
      return waits_[each - 1].target == target && waits_[each - 1].state == state;
    });
    if (number == 0) number = create(state, target);
    if (number == 0) return;
    add(waits_[number - 1].count, uint64_t{1});
    add(waits_[number - 1].ns, static_cast<uint64_t>(std::max<int64_t>(ns, 0)));
  }

  // ---- for any thread

  std::vector<WaitTotals> read() const;
  uint64_t dropped() const { return dropped_.get(); }

 private:
  static uint64_t hash_of(uint16_t state, uint64_t target) { return ((target + state) * kGoldenRatio) >> 40; }
  [[clang::preserve_most]] uint16_t create(uint16_t state, uint64_t target);

  ZeroedArray<WaitTotals> waits_;
  std::atomic<uint32_t> used_{0};
  EntryIndex index_;  ///< numbers of waits, from 1
  Count dropped_;
};

/// A wait that ended without what it waited for.
struct EndedWait {
  uint32_t sequence;
  Code outcome;
  int64_t ended_ns;
  LiveRecord record;
};
static_assert(std::is_trivially_copyable_v<EndedWait>);

/// The newest of them at most. One thread writes; any may read.
class EndedWaits {
 public:
  explicit EndedWaits(uint32_t limit) : waits_(limit) {}
  /// For the writer.
  void add(const LiveRecord& record, int64_t now_ns, Code outcome);
  std::vector<EndedWait> read() const;

 private:
  ZeroedArray<EndedWait> waits_;
  uint32_t next_ = 0;
};

}  // namespace kintsugi::sight

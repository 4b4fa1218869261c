/// The table of open regions and waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>

#include "common/runtime/trace_recorder.h"
#include "monitoring/sight/tables/seqlock.h"
#include "monitoring/sight/tables/zeroed_array.h"

namespace kintsugi::sight {

using runtime::LiveHandle;
using runtime::RegionKind;
using runtime::Site;
using runtime::WaitKind;

/// An open region or wait.
struct LiveRecord {
  uint32_t sequence, generation;  ///< `sequence` is odd while the record is being written
  uint64_t trace_id, span_id, parent_span_id;
  /// The calling context across all processes, and from the entry of the role down.
  uint64_t path, role_path;
  const Site* site;  ///< site of the record; null: it is a wait
  std::source_location where;
  /// By the process's clock: when it was entered, and when its progress last changed (first: when it was entered).
  int64_t entered_ns, progressed_ns;
  uint64_t progress;             ///< progress in the unit of the site
  uint64_t target, target_span;  ///< target of the wait (TraceRecorder::name_target)
  uint32_t task;
  uint16_t role, state;
  /// The record of the same task that it lies on; 0: it is the task's root; itself: it lies beside the stack, as a
  /// stream does, which the task holds and only now and then waits for.
  uint32_t below;
  RegionKind kind;
  WaitKind wait;
  uint8_t need, flags;
  int64_t covered_ns;  ///< time spent in children and waits that have ended
};
static_assert(sizeof(LiveRecord) == 128 && std::is_trivially_copyable_v<LiveRecord>);
static_assert(sizeof(std::source_location) == 8);

inline constexpr uint8_t kFlagBackground = 1;  ///< no operation waits for the task
/// Not marked as a task in the code, but made one, because siblings were open at the same time.
inline constexpr uint8_t kFlagImplicit = 2;

/// Where a record that is opened belongs.
struct Standing {
  uint32_t task = 0;   ///< number of the task; 0: the table has no room for it
  uint32_t below = 0;  ///< record on which this one lies (LiveRecord)
  uint16_t role = 0, state = 0;
  uint8_t flags = 0;
  uint64_t role_path = 0;
};

/// One thread writes; any may read. A full table drops and counts.
class RecordTable {
 public:
  explicit RecordTable(uint32_t limit) : records_(limit) {}

  // ---- for the writer

  /// A slot for a new record; 0: none is free.
  uint32_t take() {
    uint32_t slot = free_;
    if (slot != 0) {
      free_ = records_[slot].below;
      return slot;
    }
    slot = used_.load(std::memory_order_relaxed);
    if (slot >= records_.size()) {
      dropped_.increment();
      return 0;
    }
    used_.store(slot + 1, std::memory_order_release);
    return slot;
  }
  /// A slot that was taken and not filled is free again.
  void give_back(uint32_t slot) {
    put(records_[slot].below, free_);
    free_ = slot;
  }
  /// Returns null if the handle is stale, or none.
  LiveRecord* find(LiveHandle handle) {
    if (handle.slot == 0 || handle.slot >= records_.size()) return nullptr;
    LiveRecord& record = records_[handle.slot];
    if (record.generation != handle.generation) return nullptr;
    if (record.kind == RegionKind::kFree) return nullptr;
    return &record;
  }
  /// Returns the record of a place where something may be opened, or null. What lies beside the stack is none, and may
  /// outlive its task.
  LiveRecord* find_place(LiveHandle handle) {
    LiveRecord* const record = find(handle);
    return record == nullptr || record->below == handle.slot ? nullptr : record;
  }
  LiveRecord& operator[](uint32_t slot) { return records_[slot]; }
  const LiveRecord& operator[](uint32_t slot) const { return records_[slot]; }
  /// Field by field into the table: nothing is put together elsewhere first, which would cost as much again.
  [[gnu::always_inline]] LiveHandle fill(uint32_t slot, const runtime::Opening& opening,
                                         const Standing& standing, RegionKind kind, int64_t now_ns);
  /// Ends the record in the slot, and frees it.
  [[gnu::always_inline]] void end(uint32_t slot) {
    LiveRecord& record = records_[slot];
    {
      const Writing<LiveRecord> writing(record);
      put(record.kind, RegionKind::kFree);
      put(record.generation, record.generation + 1);
      put(record.below, free_);
    }
    free_ = slot;
  }

  // ---- for any thread

  uint32_t slots() const { return used_.load(std::memory_order_acquire); }
  /// False: free, or just being written.
  bool read(uint32_t slot, LiveRecord& record) const {
    return slot != 0 && slot < slots() && copy_whole(records_[slot], record) &&
           record.kind != RegionKind::kFree;
  }
  /// True when a region with this span is open. Looks at all, so it is for few questions a second.
  bool is_open(uint64_t span) const {
    for (uint32_t slot = 1; slot < slots(); ++slot)
      if (get(records_[slot].span_id) == span && get(records_[slot].kind) != RegionKind::kFree) return true;
    return false;
  }
  /// Calls `use` with the site of each open region; waits have none. Reads two fields of each record, not the whole.
  template <class Use>
  void for_each_open_site(Use use) const {
    for (uint32_t slot = 1; slot < slots(); ++slot) {
      if (get(records_[slot].kind) == RegionKind::kFree) continue;
      if (const Site* site = get(records_[slot].site)) use(*site);
    }
  }
  uint64_t dropped() const { return dropped_.get(); }

 private:
  ZeroedArray<LiveRecord> records_;
  std::atomic<uint32_t> used_{1};  ///< slot 0 is never used
  uint32_t free_ = 0;              ///< first free slot; the others are linked by `below`
  Count dropped_;
};

inline LiveHandle RecordTable::fill(uint32_t slot, const runtime::Opening& opening, const Standing& standing,
                                    RegionKind kind, int64_t now_ns) {
  LiveRecord& record = records_[slot];
  const Writing<LiveRecord> writing(record);
  put(record.trace_id, opening.trace_id);
  put(record.span_id, opening.span_id);
  put(record.parent_span_id, opening.parent_span_id);
  put(record.path, opening.path);
  put(record.role_path, standing.role_path);
  put(record.site, opening.site);
  put(record.where, opening.where);
  put(record.entered_ns, now_ns);
  put(record.progressed_ns, now_ns);
  put(record.progress, uint64_t{0});
  put(record.target, opening.target);
  put(record.target_span, opening.target_span);
  put(record.task, standing.task);
  put(record.role, standing.role);
  put(record.state, standing.state);
  put(record.below, standing.below);
  put(record.kind, kind);
  put(record.wait, opening.wait);
  put(record.need, opening.need);
  put(record.flags, standing.flags);
  put(record.covered_ns, int64_t{0});
  return {slot, record.generation};
}

}  // namespace kintsugi::sight

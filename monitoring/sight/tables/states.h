/// The states in which tasks stand between two events: the innermost open region, from the entry of the role down, the
/// child of it that ended last, and what it waits for. State 0 is outside: a task comes from it and goes to it. It is
/// also the state of all for which the table has no room.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "monitoring/sight/tables/entry_index.h"
#include "monitoring/sight/tables/records.h"

namespace kintsugi::sight {

struct StateRecord {
  uint64_t key, role_path;
  const Site* last_child;  ///< null: no child has ended yet
  uint16_t role;
  WaitKind wait;
};

/// One thread writes; any may read. A full table drops and counts.
class StateTable {
 public:
  /// REQUIRES: limit <= UINT16_MAX.
  explicit StateTable(uint32_t limit);

  // ---- for the writer

  [[gnu::always_inline]] uint16_t of(uint64_t role_path, const Site* last_child, WaitKind wait,
                                     uint16_t role) {
    // Both are spread over all bits already.
    const uint64_t key = role_path + (last_child != nullptr ? last_child->id() : 0) * 3 +
                         (static_cast<uint64_t>(wait) + 1) * kGoldenRatio;
    const uint16_t state =
        index_.place_of(key >> 20, [&](uint16_t each) { return states_[each].key == key; });
    return state != 0 ? state : create({key, role_path, last_child, role, wait});
  }
  /// Where a task stands that waits on top of `under`.
  [[gnu::always_inline]] uint16_t of_wait(const LiveRecord& under, WaitKind wait) {
    const LastWait& last = last_waits_[under.state];
    return last.wait == wait && last.state != 0 ? last.state : find_wait(under, wait);
  }
  /// What is opened on top of a record.
  struct Child {
    const Site* site;     ///< site of the record; null: there is none yet
    uint64_t role_path;   ///< path of the record from the entry of the role down
    uint64_t under_path;  ///< path of the record on which this one was opened
    uint16_t state;       ///< state of a task that is in the record
    WaitKind wait;
  };
  [[gnu::always_inline]] const Child& of_child(const LiveRecord& under, const Site& site, WaitKind wait) {
    Child& last = last_children_[under.state];
    if (last.site != &site || last.wait != wait || last.under_path != under.role_path || under.state == 0)
        [[unlikely]]
      last = find_child(under, site, wait);
    return last;
  }
  /// Where a task stands in `under` when its child `site` ends, in which the task stood in `state`.
  [[gnu::always_inline]] uint16_t after_child(const LiveRecord& under, const Site& site, uint16_t state) {
    const Back& last = last_backs_[state];
    const bool is_same = last.wait == under.wait && last.under_path == under.role_path && last.state != 0;
    return is_same ? last.state : find_back(under, site, state);
  }

  // ---- for any thread

  std::vector<StateRecord> read(uint32_t from) const;  ///< the states with numbers from `from` on
  uint64_t dropped() const { return dropped_.get(); }

 private:
  [[clang::preserve_most]] uint16_t create(const StateRecord& record);
  [[clang::preserve_most]] uint16_t find_wait(const LiveRecord& under, WaitKind wait);
  [[clang::preserve_most]] Child find_child(const LiveRecord& under, const Site& site, WaitKind wait);
  [[clang::preserve_most]] uint16_t find_back(const LiveRecord& under, const Site& site, uint16_t state);

  ZeroedArray<StateRecord> states_;
  std::atomic<uint32_t> used_{1};
  EntryIndex index_;
  /// What a task waited for last in each state. It is mostly the same again, and then no index is searched.
  struct LastWait {
    uint16_t state;  ///< the state of a task that waits for the target; 0: none yet
    WaitKind wait;
  };
  ZeroedArray<LastWait> last_waits_;
  ZeroedArray<Child> last_children_;  ///< index: the state below; the last child opened there
  struct Back {
    /// Path of the record below, which need not be the one that the child was opened on.
    uint64_t under_path;
    uint16_t state;  ///< state after the return; 0: none yet
    WaitKind wait;   ///< kind of wait of the record below
  };
  ZeroedArray<Back> last_backs_;  ///< index: the state in the child that ends; the last return from it
  Count dropped_;
};

}  // namespace kintsugi::sight

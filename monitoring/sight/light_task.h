/// The one task that is recorded lightly: a call that is served often, of a role whose tasks lately never waited. It
/// runs from its begin to its end in one go, so there is one at a time, and its regions end in the order in which they
/// lie. Any thread sees it open as it sees other tasks; but its transitions are not counted, and its records lie in
/// places that are kept for it, in which only little has to be written.
///
/// Whatever such a task does else (it waits, it begins another one) makes it one of the others: see release().
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <source_location>

#include "common/runtime/trace_recorder.h"
#include "common/runtime/turn_place.h"
#include "monitoring/sight/tables/calm_roles.h"
#include "monitoring/sight/tables/records.h"
#include "monitoring/sight/tables/roles.h"
#include "monitoring/sight/tables/states.h"
#include "monitoring/sight/tables/tasks.h"

namespace kintsugi::sight {

/// For the thread that writes the tables, which outlive it.
class LightTask {
 public:
  static constexpr uint32_t kDepth = 8;  ///< regions that lie on one another at most

  LightTask(RecordTable& records, TaskTable& tasks, StateTable& states, RoleTable& roles, CalmRoles& calm,
            std::atomic<uint32_t>& touched)
      : records_(records), tasks_(tasks), states_(states), roles_(roles), calm_(calm), touched_(touched) {}

  bool is_open() const { return depth_ != 0; }
  /// True for the task of an open record.
  bool is(uint32_t task) const { return depth_ != 0 && task == task_; }
  /// True when this is its innermost region.
  bool is_top(LiveHandle handle) const {
    if (depth_ == 0) return false;
    const Place& top = places_[depth_ - 1];
    return handle.slot == top.slot && handle.generation == top.record->generation;
  }

  /// Begins with a region. Slot 0: this call is to be recorded in full. REQUIRES: not is_open().
  [[gnu::always_inline]] LiveHandle begin(const runtime::SpanEvent& event, std::source_location where,
                                          RegionKind kind, int64_t now_ns) {
    const uint16_t role = roles_.of(*event.site);
    if (!calm_.lightly(role, event.trace_id, now_ns)) return {};
    if (task_ == 0 && !reserve()) return {};
    const CalmRoles::Entry& entry = calm_.entry(role);
    TaskRecord& task = *task_record_;
    {
      const Writing<TaskRecord> writing(task);
      put(task.role, role);
      put(task.began_ns, now_ns);
      put(task.generation, task.generation + 1);
      put(task.top, places_[0].slot);
    }
    kept_ = false;
    roles_.count_begun(role);
    return fill(event, where, kind, {.site = nullptr, .role_path = entry.role_path, .state = entry.state},
                role, now_ns);
  }
  /// Enters a region on top. Slot 0: there is no room. REQUIRES: is_open().
  [[gnu::always_inline]] LiveHandle enter(const runtime::SpanEvent& event, std::source_location where,
                                          RegionKind kind, int64_t now_ns) {
    if (depth_ == kDepth) return {};
    const LiveRecord& under = *places_[depth_ - 1].record;
    const StateTable::Child& child = states_.of_child(under, *event.site, WaitKind::kNone);
    put(task_record_->top, places_[depth_].slot);
    return fill(event, where, kind, child, under.role, now_ns);
  }
  /// Leaves the innermost region, whose record is returned: it holds until the next step. With the outermost one the
  /// task ends. REQUIRES: is_open().
  [[gnu::always_inline]] const LiveRecord& leave(int64_t now_ns, Code outcome) {
    LiveRecord& record = *places_[--depth_].record;
    TaskRecord& task = *task_record_;
    put(record.generation, record.generation + 1);
    put(record.kind, RegionKind::kFree);
    const uint32_t below = record.below;
    put(task.top, below);
    touched_.store(below, std::memory_order_relaxed);
    const Site* runs = record.site;
    if (below == 0) {
      roles_.count_ended(task.role, outcome);
      calm_.ended_lightly(task.role);
    } else {
      LiveRecord& under = *places_[depth_ - 1].record;
      add(under.covered_ns, now_ns - record.entered_ns);
      put(under.state, states_.after_child(under, *record.site, record.state));
      runs = under.site;
    }
    runtime::TurnPlace::here().enter(runs, now_ns);
    return record;
  }

  /// A region of it was recorded after all, and so are those around it: a recorded span has its parent.
  void keep() { kept_ = true; }
  bool is_kept() const { return kept_; }

  struct Released {
    uint32_t task = 0, depth = 0;
    std::array<uint32_t, kDepth> slots{};  ///< records of its regions, the outermost first
  };
  /// From now on the task and its records are like all others, but that no transition of the task was counted yet.
  Released release();

 private:
  /// Keeps places for a task and its records. False: there are none.
  bool reserve();

  [[gnu::always_inline]] LiveHandle fill(const runtime::SpanEvent& event, std::source_location where,
                                         RegionKind kind, const StateTable::Child& place, uint16_t role,
                                         int64_t now_ns) {
    const uint32_t slot = places_[depth_].slot;
    LiveRecord& record = *places_[depth_++].record;
    const Writing<LiveRecord> writing(record);
    put(record.trace_id, event.trace_id);
    put(record.span_id, event.span_id);
    put(record.parent_span_id, event.parent_span_id);
    put(record.path, event.path);
    put(record.role_path, place.role_path);
    put(record.site, event.site);
    put(record.where, where);
    put(record.entered_ns, now_ns);
    put(record.progressed_ns, now_ns);
    put(record.role, role);
    put(record.state, place.state);
    put(record.kind, kind);
    put(record.covered_ns, int64_t{0});
    touched_.store(slot, std::memory_order_relaxed);
    runtime::TurnPlace::here().enter(event.site, now_ns);
    return {slot, record.generation};
  }

  RecordTable& records_;
  TaskTable& tasks_;
  StateTable& states_;
  RoleTable& roles_;
  CalmRoles& calm_;
  std::atomic<uint32_t>& touched_;
  uint32_t task_ = 0;  ///< number of the task; 0: no places are kept
  TaskRecord* task_record_ = nullptr;
  uint32_t depth_ = 0;  ///< number of open regions
  bool kept_ = false;   ///< whether places are kept (keep())
  struct Place {
    uint32_t slot = 0;
    LiveRecord* record = nullptr;
  };
  std::array<Place, kDepth> places_{};  ///< records of regions, the outermost first
};

}  // namespace kintsugi::sight

/// The work that is open in a process: tasks, the regions of code that they are in, and what they wait for. The thread
/// of the event loop writes it as it goes; any other thread may read it at any time, also while the loop is blocked.
///
/// What is kept lies in tables (monitoring/sight/tables/), each with an owner that says what its entries mean. They
/// know nothing of each other: which entries a step changes is decided here. All are of fixed size, and their memory
/// is touched only when it is used. A full table drops and counts; nothing is allocated, locked or waited for.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "common/runtime/trace_recorder.h"
#include "monitoring/sight/light_task.h"
#include "monitoring/sight/tables/calm_roles.h"
#include "monitoring/sight/tables/edges.h"
#include "monitoring/sight/tables/implicit_tasks.h"
#include "monitoring/sight/tables/records.h"
#include "monitoring/sight/tables/roles.h"
#include "monitoring/sight/tables/states.h"
#include "monitoring/sight/tables/targets.h"
#include "monitoring/sight/tables/tasks.h"
#include "monitoring/sight/tables/tick_clock.h"
#include "monitoring/sight/tables/waits.h"

namespace kintsugi::sight {

/// `roles` and `targets` are powers of two.
struct LiveLimits {
  uint32_t records = 8192;
  uint32_t tasks = 4096;
  uint32_t states = 2048;
  uint32_t edges = 4096;
  uint32_t roles = 256;
  uint32_t waits = 1024;
  uint32_t targets = 512;
  uint32_t ended_waits = 128;
};

class LiveWork {
 public:
  /// `ticks`: see TickClock.
  explicit LiveWork(const runtime::Clock& clock, bool ticks = false, LiveLimits limits = {});
  LiveWork(const LiveWork&) = delete;
  LiveWork& operator=(const LiveWork&) = delete;

  // ---- written by the event loop's thread. Calls of other threads do nothing: the thread that first opens a record is
  // the event loop's.

  /// The time of the clock, read faster.
  int64_t now_ns() { return is_owner() ? clock_.now_ns() : clock_.clock_ns(); }
  int64_t own_now_ns() { return clock_.now_ns(); }  ///< the same; REQUIRES: this is the event loop's thread

  /// REQUIRES: the opening has a site.
  /// A region of the kind kFree is held by the task of its parent and lies beside the stack (see LiveRecord::below).
  /// A region whose parent is not the top of its task stands beside what is open there: it begins a task, which counts
  /// as implicit. A wait lies on the top of its parent's task, unless that is a wait too.
  LiveHandle open(LiveHandle parent, const runtime::Opening& opening, int64_t now_ns);
  /// The task that is recorded lightly, if one is open; null on other threads.
  LightTask* light() { return is_owner() ? &light_ : nullptr; }
  /// Opens a wait without a site, in the task that is open in `context`; without one nothing is opened.
  LiveHandle open_wait(const Context& context, WaitKind wait, uint64_t target, uint64_t target_span,
                       uint8_t need, std::source_location where);
  struct Closed {
    int64_t covered_ns = 0;  ///< time spent in children and waits
    uint64_t role_path = 0;
    std::source_location where;
    bool sampled = false;  ///< whether the task stands for others, too, or is recorded lightly
  };
  /// `outcome` says how it ended; a wait that ended badly is remembered for a while.
  Closed close(LiveHandle record, int64_t now_ns, Code outcome = Code::kOk);
  /// Closes a wait that open_wait() opened, now.
  void close_wait(LiveHandle wait, Code outcome);
  /// Notes that something moved: `progress` is a count in the site's unit.
  void progress(LiveHandle record, uint64_t progress, int64_t now_ns);
  /// Notes that something moved by `amount`, which is added.
  void advance(LiveHandle record, uint64_t amount, int64_t now_ns);

  /// What records have as their targets, to be written; null on any thread but the owner's.
  TargetTable* own_targets() { return is_owner() ? &targets_ : nullptr; }

  // ---- read by any thread

  const RecordTable& records() const { return records_; }
  const TaskTable& tasks() const { return tasks_; }
  const StateTable& states() const { return states_; }
  const EdgeTable& edges() const { return edges_; }
  const RoleTable& roles() const { return roles_; }
  const WaitTable& waits() const { return waits_; }
  const EndedWaits& ended_waits() const { return ended_; }
  const TargetTable& targets() const { return targets_; }
  const ImplicitTasks& implicit_tasks() const { return implicit_; }
  /// How often any of the tables had no room.
  uint64_t dropped() const;
  /// Work of this share of all traces is recorded in full at least (see Opening::often).
  void keep_traces(double share) const { calm_.keep_traces(share); }
  /// The record at which the loop's thread was last; 0: none.
  uint32_t last_touched() const { return touched_.load(std::memory_order_relaxed); }

 private:
  bool is_owner();
  void step_on(uint32_t slot, const Standing& standing, WaitKind wait, uint64_t target, int64_t now_ns);
  void step_off(LiveRecord& record, uint32_t slot, int64_t duration_ns, int64_t now_ns, Code outcome,
                const Site* site);
  void slide_down(TaskRecord& task, uint32_t slot, uint32_t below);
  void end_wait(const LiveRecord& record, int64_t duration_ns, int64_t now_ns, Code outcome);
  void move(TaskRecord& task, uint16_t to, int64_t now_ns);
  void begin_to_wait(TaskRecord& task);

  // What happens seldom saves the registers that it uses, so that what happens always keeps its values in them.
  /// What of an opening makes a task. It goes in registers.
  struct Root {
    const Site* site;
    WaitKind wait;
    bool background, implicit;
    bool often;  ///< whether the region is opened often (runtime::Opening)
  };
  [[clang::preserve_most]] Standing stand_as_task(Root root, const LiveRecord* parent, uint32_t slot,
                                                  int64_t now_ns);
  [[clang::preserve_most]] void end_task(uint32_t task, int64_t now_ns, Code outcome);
  [[clang::preserve_most]] void record_in_full();
  [[clang::preserve_most]] void remember(const LiveRecord& record, int64_t now_ns, Code outcome);

  std::atomic<uintptr_t> owner_{0};
  std::atomic<uint32_t> touched_{0};
  TickClock clock_;
  RecordTable records_;
  TaskTable tasks_;
  StateTable states_;
  EdgeTable edges_;
  RoleTable roles_;
  CalmRoles calm_;
  LightTask light_{records_, tasks_, states_, roles_, calm_, touched_};
  WaitTable waits_;
  EndedWaits ended_;
  TargetTable targets_;
  ImplicitTasks implicit_;
};

inline bool LiveWork::is_owner() {
  const auto self = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
  uintptr_t owner = owner_.load(std::memory_order_relaxed);
  if (owner == self) return true;
  return owner == 0 && owner_.compare_exchange_strong(owner, self, std::memory_order_relaxed);
}

}  // namespace kintsugi::sight

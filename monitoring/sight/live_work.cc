#include "monitoring/sight/live_work.h"

#include "common/base/assert.h"
#include "common/runtime/turn_place.h"
#include "monitoring/sight/wait_kinds.h"

namespace kintsugi::sight {

namespace {

using runtime::child_path;
using runtime::Opening;
using runtime::TurnPlace;

/// The role of what nobody marked as a task and has no name.
constexpr Site kUnmarked{"unmarked"};

uint8_t background_flag(bool background, uint8_t flags_of_parent) {
  return static_cast<uint8_t>((background ? kFlagBackground : 0) | (flags_of_parent & kFlagBackground));
}

}  // namespace

LiveWork::LiveWork(const runtime::Clock& clock, bool ticks, LiveLimits limits)
    : clock_(clock, ticks),
      records_(limits.records),
      tasks_(limits.tasks),
      states_(limits.states),
      edges_(limits.edges, limits.states),
      roles_(limits.roles),
      calm_(limits.roles),
      waits_(limits.waits),
      ended_(limits.ended_waits),
      targets_(limits.targets) {}

LiveHandle LiveWork::open(LiveHandle parent, const Opening& opening, int64_t now_ns) {
  KINTSUGI_ASSERT(opening.site != nullptr);
  if (!is_owner()) return {};
  LiveRecord* const up = records_.find_place(parent);
  if (light_.is_open() && (opening.often || (up != nullptr && light_.is(up->task)))) [[unlikely]]
    record_in_full();
  const bool beside_stack = opening.kind == RegionKind::kFree;
  if (beside_stack && up == nullptr) return {};
  const uint32_t slot = records_.take();
  if (slot == 0) return {};

  if (beside_stack) {
    begin_to_wait(tasks_[up->task]);
    const Standing standing{.task = up->task,
                            .below = slot,
                            .role = up->role,
                            .flags = background_flag(opening.background, up->flags),
                            .role_path = child_path(up->role_path, *opening.site)};
    return records_.fill(slot, opening, standing, RegionKind::kModule, now_ns);
  }
  // A region that may outlive its parent is a task of its own.
  bool implicit = !opening.task && parent.slot != 0;
  Standing standing;
  if (implicit && up != nullptr) {
    const uint32_t top = tasks_[up->task].top;
    const LiveRecord& under = records_[top];
    // A task that waits does not run: who opens something in it is somebody else. A region that is not opened from the
    // innermost one stands beside that.
    implicit = under.kind == RegionKind::kWait || (opening.kind != RegionKind::kWait && top != parent.slot);
    if (!implicit) {
      const StateTable::Child& child = states_.of_child(under, *opening.site, opening.wait);
      standing = {.task = under.task,
                  .below = top,
                  .role = under.role,
                  .state = child.state,
                  .flags = background_flag(opening.background, under.flags),
                  .role_path = child.role_path};
      if (opening.wait != WaitKind::kNone) begin_to_wait(tasks_[under.task]);
    }
  }
  if (standing.task == 0)
    standing = stand_as_task({opening.site, opening.wait, opening.background, implicit, opening.often}, up,
                             slot, now_ns);
  if (standing.task == 0) return {};
  const LiveHandle handle = records_.fill(slot, opening, standing, opening.kind, now_ns);
  step_on(slot, standing, opening.wait, opening.target, now_ns);
  return handle;
}

LiveHandle LiveWork::open_wait(const Context& context, WaitKind wait, uint64_t target, uint64_t target_span,
                               uint8_t need, std::source_location where) {
  if (!is_owner()) return {};
  const LiveRecord* const up = records_.find_place(context.live);
  if (up == nullptr) return {};
  if (light_.is(up->task)) [[unlikely]]
    record_in_full();
  const Opening opening{.where = where,
                        .kind = RegionKind::kWait,
                        .trace_id = context.trace.trace_id,
                        .span_id = context.trace.span_id,
                        .path = context.trace.path,
                        .wait = wait,
                        .need = need,
                        .target = target,
                        .target_span = target_span};
  const int64_t now_ns = clock_.now_ns();
  const uint32_t slot = records_.take();
  if (slot == 0) return {};
  const uint32_t top = tasks_[up->task].top;
  const LiveRecord& under = records_[top];
  Standing standing;
  if (under.kind == RegionKind::kWait) [[unlikely]] {
    standing = stand_as_task({nullptr, wait, false, true, false}, up, slot, now_ns);
    if (standing.task == 0) return {};
  } else {
    begin_to_wait(tasks_[under.task]);
    standing = {.task = under.task,
                .below = top,
                .role = under.role,
                .state = states_.of_wait(under, wait),
                .flags = background_flag(false, under.flags),
                .role_path = under.role_path};
  }
  const LiveHandle handle = records_.fill(slot, opening, standing, RegionKind::kWait, now_ns);
  step_on(slot, standing, wait, target, now_ns);
  return handle;
}

/// Begins a task with what is opened in `slot`, and gives the slot back when there is no room for one.
[[gnu::noinline]] Standing LiveWork::stand_as_task(Root root, const LiveRecord* parent, uint32_t slot,
                                                   int64_t now_ns) {
  const Site& site = root.site != nullptr ? *root.site : kUnmarked;
  const uint8_t implicit = root.implicit ? kFlagImplicit : 0;
  Standing standing{.role = roles_.of(site), .role_path = child_path(0, site)};
  standing.flags = background_flag(root.background, parent != nullptr ? parent->flags : 0) | implicit;
  standing.state = states_.of(standing.role_path, nullptr, root.wait, standing.role);
  standing.task = tasks_.begin(
      {.now_ns = now_ns,
       .parent_task = parent != nullptr ? parent->task : 0,
       .root = slot,
       .weight = root.often ? calm_.begun(standing.role, {standing.role_path, standing.state}, now_ns) : 1,
       .role = standing.role,
       .flags = static_cast<uint8_t>((root.background ? kFlagBackground : 0) | implicit)});
  if (standing.task == 0) {
    records_.give_back(slot);
    return standing;
  }
  roles_.count_begun(standing.role);
  if (root.implicit)
    implicit_.add(site, parent != nullptr && parent->site != nullptr ? *parent->site : kUnmarked);
  return standing;
}

/// Makes the record the top of its task.
[[gnu::always_inline]] inline void LiveWork::step_on(uint32_t slot, const Standing& standing, WaitKind wait,
                                                     uint64_t target, int64_t now_ns) {
  TaskRecord& task = tasks_[standing.task];
  {
    const Writing<TaskRecord> writing(task);
    put(task.top, slot);
    move(task, standing.state, now_ns);
  }
  if (is_request(wait)) targets_.count_submitted(target);
  touched_.store(slot, std::memory_order_relaxed);
  // Until it suspends, whoever begins to wait continues in the region that it stands in.
  const uint32_t runs = wait == WaitKind::kNone ? slot : standing.below;
  TurnPlace::here().enter(records_[runs].site, now_ns);
}

LiveWork::Closed LiveWork::close(LiveHandle handle, int64_t now_ns, Code outcome) {
  if (!is_owner()) return {};
  LiveRecord* const record = records_.find(handle);
  if (record == nullptr) return {};
  if (light_.is(record->task)) [[unlikely]]
    record_in_full();
  const bool sampled = record->below != handle.slot && tasks_[record->task].weight != 1;
  const Closed closed{record->covered_ns, record->role_path, record->where, sampled};
  const int64_t duration = now_ns - record->entered_ns;
  if (record->kind == RegionKind::kWait) end_wait(*record, duration, now_ns, outcome);
  step_off(*record, handle.slot, duration, now_ns, outcome, record->site);
  return closed;
}

void LiveWork::close_wait(LiveHandle wait, Code outcome) {
  if (!is_owner()) return;
  LiveRecord* const record = records_.find(wait);
  if (record == nullptr) return;
  const int64_t now = clock_.now_ns(), duration = now - record->entered_ns;
  end_wait(*record, duration, now, outcome);
  step_off(*record, wait.slot, duration, now, outcome, nullptr);
}

[[gnu::always_inline]] inline void LiveWork::end_wait(const LiveRecord& record, int64_t duration_ns,
                                                      int64_t now_ns, Code outcome) {
  waits_.count(record.state, record.target, duration_ns);
  if (is_request(record.wait)) targets_.count_completed(record.target, duration_ns);
  if (outcome != Code::kOk) return remember(record, now_ns, outcome);
  // A task that gets what it asked for makes progress, also when it goes round in a loop of few states.
  if (is_answered(record.wait)) put(tasks_[record.task].changed_ns, now_ns);
}

/// Keeps a wait that ended without what it waited for.
[[gnu::noinline]] void LiveWork::remember(const LiveRecord& record, int64_t now_ns, Code outcome) {
  if (outcome != Code::kDeadlineExceeded && outcome != Code::kCancelled && outcome != Code::kUnavailable)
    return;
  if (record.wait == WaitKind::kCall) targets_.count_unanswered(record.target);
  ended_.add(record, now_ns, outcome);
}

/// Takes the record off its task, which then stands where it stood before, and frees it. `site` is the record's.
[[gnu::always_inline]] inline void LiveWork::step_off(LiveRecord& record, uint32_t slot, int64_t duration_ns,
                                                      int64_t now_ns, Code outcome, const Site* site) {
  const uint32_t below = record.below;
  if (below == slot) return records_.end(slot);  // it lies beside the stack, so the task does not stand there
  TaskRecord& task = tasks_[record.task];
  if (below != 0) {
    LiveRecord& under = records_[below];
    add(under.covered_ns, duration_ns);
    if (site != nullptr && task.top == slot)
      put(under.state, states_.after_child(under, *site, record.state));
  }
  if (task.top != slot) {
    slide_down(task, slot, below);
  } else if (below == 0) {
    end_task(record.task, now_ns, outcome);
  } else {
    const Writing<TaskRecord> writing(task);
    put(task.top, below);
    move(task, records_[below].state, now_ns);
  }
  records_.end(slot);
  touched_.store(below, std::memory_order_relaxed);
  // What comes after the last region of a task, as writing the answer, is counted as that region's.
  TurnPlace::here().enter(below != 0 ? records_[below].site : site, now_ns);
}

/// What was opened on the record in `slot` is still open when that ends: from now on it lies on `below`.
[[gnu::noinline]] void LiveWork::slide_down(TaskRecord& task, uint32_t slot, uint32_t below) {
  uint32_t above = task.top;
  while (above != 0 && records_[above].below != slot)
    above = records_[above].below;
  if (above != 0) put(records_[above].below, below);
  if (below == 0) put(task.root, above);
}

[[gnu::noinline]] void LiveWork::end_task(uint32_t number, int64_t now_ns, Code outcome) {
  const TaskRecord& task = tasks_[number];
  roles_.count_ended(task.role, outcome);
  calm_.ended(task.role);
  edges_.count(task.state, 0, now_ns - task.since_ns, task.weight);
  tasks_.end(number);
}

[[gnu::always_inline]] inline void LiveWork::move(TaskRecord& task, uint16_t to, int64_t now_ns) {
  if (task.state == to && task.transitions != 0) return;
  EdgeTotals* const edge = edges_.count(task.state, to, now_ns - task.since_ns, task.weight);
  tasks_.step(task, to, now_ns, edge != nullptr ? &edge->task_edge : nullptr);
}

/// A task that waits stands for itself, and its role is not calm.
[[gnu::always_inline]] inline void LiveWork::begin_to_wait(TaskRecord& task) {
  calm_.waited(task.role);
  put(task.weight, uint32_t{1});
}

/// The task that was recorded lightly goes the way to where it stands, through the regions that are open.
[[gnu::noinline]] void LiveWork::record_in_full() {
  const LightTask::Released light = light_.release();
  TaskRecord& task = tasks_[light.task];
  const Writing<TaskRecord> writing(task);
  calm_.waited(task.role);
  put(task.changed_ns, task.began_ns);
  for (uint32_t i = 0; i < light.depth; ++i)
    move(task, records_[light.slots[i]].state, records_[light.slots[i]].entered_ns);
}

void LiveWork::progress(LiveHandle handle, uint64_t progress, int64_t now_ns) {
  if (!is_owner()) return;
  LiveRecord* const record = records_.find_place(handle);
  if (record == nullptr || record->progress == progress) return;
  if (light_.is(record->task)) record_in_full();
  put(record->progress, progress);
  put(record->progressed_ns, now_ns);
  put(tasks_[record->task].changed_ns, now_ns);
  touched_.store(handle.slot, std::memory_order_relaxed);
}

void LiveWork::advance(LiveHandle handle, uint64_t amount, int64_t now_ns) {
  if (!is_owner()) return;
  if (LiveRecord* const record = records_.find(handle)) progress(handle, record->progress + amount, now_ns);
}

uint64_t LiveWork::dropped() const {
  return records_.dropped() + tasks_.dropped() + states_.dropped() + edges_.dropped() + roles_.dropped() +
         waits_.dropped() + targets_.dropped();
}

}  // namespace kintsugi::sight

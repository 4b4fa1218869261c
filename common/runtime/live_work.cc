#include "common/runtime/live_work.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "common/base/assert.h"
#include "common/runtime/turn_place.h"

namespace kintsugi::runtime {

namespace {

static_assert(sizeof(std::source_location) == 8 && std::is_trivially_copyable_v<LiveRecord>);
static_assert(std::is_trivially_copyable_v<TaskRecord> && std::is_trivially_copyable_v<EndedWait>);

/// The role of what nobody marked as a task and has no name.
constexpr Site kUnmarked{"unmarked"};

using Word = uint64_t __attribute__((may_alias));

template <class T>
void put(T& field, T value) {
  std::atomic_ref<T>(field).store(value, std::memory_order_relaxed);
}

template <class T>
T get(const T& field) {
  return std::atomic_ref<T>(const_cast<T&>(field)).load(std::memory_order_relaxed);
}

template <class T>
void add(T& field, T amount) {
  put(field, static_cast<T>(field + amount));  // the writer is alone
}

/// A seqlock around writes of one record: its sequence is odd meanwhile. The fence keeps the writes behind the odd
/// number and the release keeps them before the even one, so a reader that sees one even number before and after its copy
/// has a whole record.
template <class Record>
class Writing {
 public:
  explicit Writing(Record& record) : record_(record) {
    put(record_.sequence, record_.sequence + 1);
    std::atomic_thread_fence(std::memory_order_release);
  }
  ~Writing() {
    std::atomic_ref<uint32_t>(record_.sequence).store(record_.sequence + 1, std::memory_order_release);
  }
  Writing(const Writing&) = delete;
  Writing& operator=(const Writing&) = delete;

 private:
  Record& record_;
};

/// The words of a record but for the first, which holds the sequence.
template <class Record>
void put_words(Record& to, const Record& from) {
  for (size_t i = 1; i < sizeof(Record) / 8; ++i)
    __atomic_store_n(reinterpret_cast<Word*>(&to) + i, reinterpret_cast<const Word*>(&from)[i],
                     __ATOMIC_RELAXED);
}

template <class Record>
bool copy_whole(const Record& from, Record& to) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    const uint32_t before =
        std::atomic_ref<uint32_t>(const_cast<uint32_t&>(from.sequence)).load(std::memory_order_acquire);
    if (before % 2 != 0) continue;
    for (size_t i = 0; i < sizeof(Record) / 8; ++i)
      reinterpret_cast<Word*>(&to)[i] =
          __atomic_load_n(reinterpret_cast<const Word*>(&from) + i, __ATOMIC_RELAXED);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (get(from.sequence) == before) return true;
  }
  return false;
}

/// log2(1 + i / 256) in 1/256, rounded: squaring a number between 1 and 2 doubles its logarithm, and gives a bit of it each time.
constexpr std::array<uint8_t, 256> kFractions = [] {
  std::array<uint8_t, 256> fractions{};
  for (size_t i = 0; i < fractions.size(); ++i) {
    double rest = 1 + static_cast<double>(i) / 256;
    unsigned bits = 0;
    for (int bit = 0; bit < 16; ++bit) {
      rest *= rest;
      bits = bits * 2 + (rest >= 2 ? 1 : 0);
      if (rest >= 2) rest /= 2;
    }
    fractions[i] = static_cast<uint8_t>((bits + 128) / 256);
  }
  return fractions;
}();

/// log2 in 1/256 by the eight bits behind the leading one, which a double has in their places. REQUIRES: value > 0.
int64_t log2_q8(int64_t value) {
  constexpr int kMantissaBits = 52, kFractionBits = 8;
  constexpr int64_t kBias = 1023;
  const int64_t bits = std::bit_cast<int64_t>(static_cast<double>(value)) >> (kMantissaBits - kFractionBits);
  return (bits & ~int64_t{255}) - (kBias << kFractionBits) + kFractions[bits & 255];
}

/// Open addressing over a table of indices with at least twice as many places as there are entries: `same` says whether an
/// entry is the one that is looked for. Returns the place of its index, or the free one where it belongs.
template <class Same>
[[gnu::always_inline]] inline uint16_t& place_of(ZeroedArray<uint16_t>& index, uint64_t hash, Same same) {
  const size_t mask = index.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask)
    if (index[i] == 0 || same(index[i])) return index[i];
}

bool has_invariant_counter() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
#else
  return false;
#endif
}

uint64_t read_counter() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return 0;
#endif
}

bool is_request(WaitKind wait) {
  return wait == WaitKind::kCall || wait == WaitKind::kDisk;
}

bool is_answered(WaitKind wait) {
  return is_request(wait) || wait == WaitKind::kStore || wait == WaitKind::kJoin;
}

uint64_t wait_hash(uint16_t state, uint64_t target) {
  return ((target + state) * kGoldenRatio) >> 40;
}

constexpr int64_t kFirstCalibration =
    20'000'000;  ///< ns of clock and counter side by side, before the counter is used
constexpr int64_t kTrusted = 1'000'000'000;  ///< ns after which it is compared with the clock again

}  // namespace

LiveWork::LiveWork(const Clock& clock, bool ticks, LiveLimits limits)
    : clock_(clock),
      limits_(limits),
      records_(limits.records),
      tasks_(limits.tasks),
      states_(limits.states),
      state_index_(std::bit_ceil(size_t{limits.states} * 2)),
      hints_(limits.states),
      edges_(limits.edges),
      edge_index_(std::bit_ceil(size_t{limits.edges} * 2)),
      roles_(limits.roles),
      waits_(limits.waits),
      wait_index_(std::bit_ceil(size_t{limits.waits} * 2)),
      targets_(limits.targets),
      ended_(limits.ended_waits),
      ticks_(ticks && has_invariant_counter()) {
  KINTSUGI_ASSERT(std::has_single_bit(limits.roles) && std::has_single_bit(limits.targets));
  KINTSUGI_ASSERT(limits.states <= UINT16_MAX && limits.edges < UINT16_MAX && limits.waits < UINT16_MAX);
}

int64_t LiveWork::now_ns() {
  return is_owner() ? own_now_ns() : clock_.now().time_since_epoch().count();
}

inline int64_t LiveWork::own_now_ns() {
  if (!ticks_) return clock_.now().time_since_epoch().count();
  const uint64_t ticks = read_counter();
  const uint64_t since = ticks - anchor_ticks_;
  const int64_t now =
      since < trusted_ticks_
          ? anchor_ns_ + static_cast<int64_t>(static_cast<unsigned __int128>(since) * scale_ >> 32)
          : calibrate(ticks);
  return latest_ns_ = std::max(latest_ns_, now);
}

[[gnu::noinline]] int64_t LiveWork::calibrate(uint64_t ticks) {
  const int64_t now = clock_.now().time_since_epoch().count();
  const int64_t elapsed = now - anchor_ns_;
  if (anchor_ticks_ == 0 || ticks <= anchor_ticks_) {
    anchor_ticks_ = ticks;
    anchor_ns_ = now;
    return now;
  }
  if (elapsed < kFirstCalibration) return now;
  const auto scale =
      static_cast<uint64_t>((static_cast<unsigned __int128>(elapsed) << 32) / (ticks - anchor_ticks_));
  // A machine that slept counts otherwise than its clock: such a stretch says nothing of the counter's rate.
  if (scale_ == 0 || (scale > scale_ - scale_ / 256 && scale < scale_ + scale_ / 256)) scale_ = scale;
  anchor_ticks_ = ticks;
  anchor_ns_ = now;
  trusted_ticks_ =
      scale_ == 0 ? 0 : static_cast<uint64_t>((static_cast<unsigned __int128>(kTrusted) << 32) / scale_);
  return now;
}

bool LiveWork::is_owner() {
  const auto self = reinterpret_cast<uintptr_t>(__builtin_thread_pointer());
  uintptr_t owner = owner_.load(std::memory_order_relaxed);
  if (owner == self) return true;
  return owner == 0 && owner_.compare_exchange_strong(owner, self, std::memory_order_relaxed);
}

inline LiveRecord* LiveWork::find(LiveHandle handle) {
  if (handle.slot == 0 || handle.slot >= records_.size()) return nullptr;
  LiveRecord& record = records_[handle.slot];
  if (record.generation != handle.generation) return nullptr;
  if (record.kind == RegionKind::kFree) return nullptr;
  return &record;
}

inline uint32_t LiveWork::take_slot() {
  uint32_t slot = free_record_;
  if (slot != 0) {
    free_record_ = records_[slot].below;
    return slot;
  }
  slot = records_used_.load(std::memory_order_relaxed);
  if (slot >= limits_.records) {
    drop();
    return 0;
  }
  records_used_.store(slot + 1, std::memory_order_release);
  return slot;
}

inline void LiveWork::free_slot(uint32_t slot) {
  put(records_[slot].below, free_record_);
  free_record_ = slot;
}

LiveHandle LiveWork::open(LiveHandle parent, const Opening& opening) {
  KINTSUGI_ASSERT(opening.site != nullptr);
  if (!is_owner()) return {};
  LiveRecord* const up = find(parent);
  const bool beside_stack = opening.kind == RegionKind::kFree;
  if (beside_stack && up == nullptr) return {};
  const uint32_t slot = take_slot();
  if (slot == 0) return {};
  LiveRecord& record = records_[slot];

  if (beside_stack) {
    const Standing standing{.task = up->task,
                            .below = slot,
                            .role = up->role,
                            .flags = static_cast<uint8_t>((opening.background ? kFlagBackground : 0) |
                                                          (up->flags & kFlagBackground)),
                            .role_path = child_path(up->role_path, *opening.site)};
    fill(record, opening, standing, RegionKind::kModule);
    return {slot, record.generation};
  }
  bool implicit = !opening.task && parent.slot != 0;  // what outlives its parent is a task of its own
  if (implicit && up != nullptr) {
    const uint32_t top = tasks_[up->task].top;
    const LiveRecord& under = records_[top];
    // A task that waits does not run: who opens something in it is somebody else. A region that is not opened from the
    // innermost one stands beside that.
    implicit = under.kind == RegionKind::kWait || (opening.kind != RegionKind::kWait && top != parent.slot);
    if (!implicit) {
      const uint64_t role_path = child_path(under.role_path, *opening.site);
      const Standing standing{.task = under.task,
                              .below = top,
                              .role = under.role,
                              .state = state_of(role_path, nullptr, opening.wait, under.role),
                              .flags = static_cast<uint8_t>((opening.background ? kFlagBackground : 0) |
                                                            (under.flags & kFlagBackground)),
                              .role_path = role_path};
      fill(record, opening, standing, opening.kind);
      step_on(slot, standing, opening.wait, opening.target, opening.now_ns);
      return {slot, record.generation};
    }
  }
  const Standing standing =
      stand_as_task(opening.site, opening.wait, opening.background, opening.now_ns, up, slot, implicit);
  if (standing.task == 0) return {};
  fill(record, opening, standing, opening.kind);
  step_on(slot, standing, opening.wait, opening.target, opening.now_ns);
  return {slot, record.generation};
}

LiveHandle LiveWork::open_wait(const Context& context, WaitKind wait, uint64_t target, uint64_t target_span,
                               uint8_t need, std::source_location where) {
  if (!is_owner()) return {};
  const LiveRecord* const up = find(context.live);
  if (up == nullptr) return {};
  const Opening opening{.where = where,
                        .kind = RegionKind::kWait,
                        .trace_id = context.trace.trace_id,
                        .span_id = context.trace.span_id,
                        .path = context.trace.path,
                        .wait = wait,
                        .need = need,
                        .target = target,
                        .target_span = target_span,
                        .now_ns = own_now_ns()};
  const uint32_t slot = take_slot();
  if (slot == 0) return {};
  LiveRecord& record = records_[slot];
  const uint32_t top = tasks_[up->task].top;
  const LiveRecord& under = records_[top];
  const Hint& hint = hints_[under.state];
  Standing standing;
  if (under.kind == RegionKind::kWait) [[unlikely]] {
    standing = stand_as_task(nullptr, wait, false, opening.now_ns, up, slot, true);
    if (standing.task == 0) return {};
  } else {
    standing = {
        .task = under.task,
        .below = top,
        .role = under.role,
        .state = hint.wait == wait && hint.wait_state != 0 ? hint.wait_state : find_wait_state(under, wait),
        .flags = static_cast<uint8_t>(under.flags & kFlagBackground),
        .role_path = under.role_path};
  }
  fill(record, opening, standing, RegionKind::kWait);
  step_on(slot, standing, wait, target, opening.now_ns);
  return {slot, record.generation};
}

/// Begins a task with what is opened in `slot`, and gives the slot back when there is no room for one.
[[gnu::noinline]] LiveWork::Standing LiveWork::stand_as_task(const Site* opened, WaitKind wait,
                                                             bool background, int64_t now_ns,
                                                             const LiveRecord* parent, uint32_t slot,
                                                             bool implicit) {
  const Site& site = opened != nullptr ? *opened : kUnmarked;
  Standing standing{.role = role_of(site), .role_path = child_path(0, site)};
  standing.state = state_of(standing.role_path, nullptr, wait, standing.role);
  if (background || (parent != nullptr && (parent->flags & kFlagBackground) != 0))
    standing.flags |= kFlagBackground;
  if (implicit) standing.flags |= kFlagImplicit;
  standing.task =
      begin_task(background, now_ns, parent != nullptr ? parent->task : 0, slot, standing.role, implicit);
  if (standing.task == 0) {
    free_slot(slot);
    drop();
    return standing;
  }
  if (implicit) {
    const uint64_t count = implicit_.load(std::memory_order_relaxed);
    Place& place = places_[count % kPlaces];
    place.site.store(&site, std::memory_order_relaxed);
    place.below.store(parent != nullptr && parent->site != nullptr ? parent->site : &kUnmarked,
                      std::memory_order_relaxed);
    implicit_.store(count + 1, std::memory_order_relaxed);
  }
  return standing;
}

/// Field by field into the table: nothing is put together elsewhere first, which would cost as much again.
[[gnu::always_inline]] inline void LiveWork::fill(LiveRecord& record, const Opening& opening,
                                                  const Standing& standing, RegionKind kind) {
  const Writing<LiveRecord> writing(record);
  put(record.trace_id, opening.trace_id);
  put(record.span_id, opening.span_id);
  put(record.parent_span_id, opening.parent_span_id);
  put(record.path, opening.path);
  put(record.role_path, standing.role_path);
  put(record.site, opening.site);
  put(record.where, opening.where);
  put(record.entered_ns, opening.now_ns);
  put(record.progressed_ns, opening.now_ns);
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
  if (is_request(wait)) count_submitted(target);
  touched_.store(slot, std::memory_order_relaxed);
  // Until it suspends, whoever begins to wait goes on in the region that it stands in.
  const uint32_t runs = wait == WaitKind::kNone ? slot : standing.below;
  TurnPlace::here().enter(records_[runs].site, now_ns);
}

LiveWork::Closed LiveWork::close(LiveHandle handle, int64_t now_ns, Code outcome) {
  if (!is_owner()) return {};
  LiveRecord* const record = find(handle);
  if (record == nullptr) return {};
  const Closed closed{record->covered_ns, record->role_path, record->where};
  const int64_t duration = now_ns - record->entered_ns;
  if (record->kind == RegionKind::kWait) end_wait(*record, duration, now_ns, outcome);
  step_off(*record, handle.slot, duration, now_ns, outcome, record->site);
  return closed;
}

void LiveWork::close_wait(LiveHandle wait, Code outcome) {
  if (!is_owner()) return;
  LiveRecord* const record = find(wait);
  if (record == nullptr) return;
  const int64_t now = own_now_ns(), duration = now - record->entered_ns;
  end_wait(*record, duration, now, outcome);
  step_off(*record, wait.slot, duration, now, outcome, nullptr);
}

[[gnu::always_inline]] inline void LiveWork::end_wait(const LiveRecord& record, int64_t duration_ns,
                                                      int64_t now_ns, Code outcome) {
  count_wait(record.state, record.target, duration_ns);
  if (is_request(record.wait)) count_completed(record.target, duration_ns);
  if (outcome != Code::kOk) return remember(record, now_ns, outcome);
  // A task that gets what it asked for goes on, also when it goes round in a loop of few states.
  if (is_answered(record.wait)) put(tasks_[record.task].changed_ns, now_ns);
}

/// Keeps a wait that ended without what it waited for.
[[gnu::noinline]] void LiveWork::remember(const LiveRecord& record, int64_t now_ns, Code outcome) {
  if (outcome != Code::kDeadlineExceeded && outcome != Code::kCancelled && outcome != Code::kUnavailable)
    return;
  if (record.wait == WaitKind::kCall) count_unanswered(record.target);
  EndedWait& ended = ended_[ended_next_++ % ended_.size()];
  const Writing<EndedWait> writing(ended);
  put(ended.outcome, outcome);
  put(ended.ended_ns, now_ns);
  put_words(ended.record, record);
}

/// Takes the record off its task, which then stands where it stood before, and frees it. `site` is the record's.
[[gnu::always_inline]] inline void LiveWork::step_off(LiveRecord& record, uint32_t slot, int64_t duration_ns,
                                                      int64_t now_ns, Code outcome, const Site* site) {
  const uint32_t below = record.below;
  TaskRecord& task = tasks_[record.task];
  const bool beside_stack = below == slot;
  if (below != 0 && !beside_stack) {
    LiveRecord& under = records_[below];
    add(under.covered_ns, duration_ns);
    if (site != nullptr && task.top == slot)
      put(under.state, state_of(under.role_path, site, under.wait, under.role));
  }
  if (beside_stack) {
    // The task does not stand there.
  } else if (task.top == slot && below == 0) {
    end_task(record.task, now_ns, outcome != Code::kOk);
  } else if (task.top == slot) {
    const Writing<TaskRecord> writing(task);
    put(task.top, below);
    move(task, records_[below].state, now_ns);
  } else {
    // Something that was opened on it is still open, and slides down.
    uint32_t above = task.top;
    while (above != 0 && records_[above].below != slot)
      above = records_[above].below;
    if (above != 0) put(records_[above].below, below);
    if (below == 0) put(task.root, above);
  }
  {
    const Writing<LiveRecord> writing(record);
    put(record.kind, RegionKind::kFree);
    put(record.generation, record.generation + 1);
    put(record.below, free_record_);
  }
  free_record_ = slot;
  touched_.store(below, std::memory_order_relaxed);
  // What comes after the last region of a task, as writing the answer, is counted as that region's.
  TurnPlace::here().enter(below != 0 ? records_[below].site : site, now_ns);
}

void LiveWork::progress(LiveHandle handle, uint64_t progress, int64_t now_ns) {
  if (!is_owner()) return;
  LiveRecord* const record = find(handle);
  if (record == nullptr || record->progress == progress) return;
  put(record->progress, progress);
  put(record->progressed_ns, now_ns);
  put(tasks_[record->task].changed_ns, now_ns);
  touched_.store(handle.slot, std::memory_order_relaxed);
}

void LiveWork::advance(LiveHandle handle, uint64_t amount, int64_t now_ns) {
  if (!is_owner()) return;
  if (LiveRecord* const record = find(handle)) progress(handle, record->progress + amount, now_ns);
}

uint32_t LiveWork::begin_task(bool background, int64_t now_ns, uint32_t parent_task, uint32_t root,
                              uint16_t role, bool implicit) {
  uint32_t number = free_task_;
  if (number != 0) {
    free_task_ = tasks_[number].parent_task;
  } else {
    number = tasks_used_.load(std::memory_order_relaxed);
    if (number >= limits_.tasks) return 0;
    tasks_used_.store(number + 1, std::memory_order_release);
  }
  TaskRecord& task = tasks_[number];
  {
    const Writing<TaskRecord> writing(task);
    put(task.root, root);
    put(task.parent_task, parent_task);
    put(task.role, role);
    put(task.state, uint16_t{0});
    put(task.began_ns, now_ns);
    put(task.changed_ns, now_ns);
    put(task.since_ns, now_ns);
    put(task.transitions, uint32_t{0});
    for (uint16_t& recent : task.recent)
      put(recent, uint16_t{0});
    put(task.recent_next, uint8_t{0});
    put(task.edge_count, uint8_t{0});
    put(task.overflowed, uint8_t{0});
    put(task.flags,
        static_cast<uint8_t>((background ? kFlagBackground : 0) | (implicit ? kFlagImplicit : 0)));
  }
  add(roles_[role].begun, uint64_t{1});
  add(roles_[role].live, uint32_t{1});
  return number;
}

[[gnu::noinline]] void LiveWork::end_task(uint32_t number, int64_t now_ns, bool failed) {
  TaskRecord& task = tasks_[number];
  RoleTotals& role = roles_[task.role];
  add(role.ended, uint64_t{1});
  put(role.live, role.live - 1);
  if (failed) add(role.failed, uint64_t{1});
  count_edge(task.state, 0, now_ns - task.since_ns);
  const Writing<TaskRecord> writing(task);
  put(task.top, uint32_t{0});
  put(task.generation, task.generation + 1);
  put(task.parent_task, free_task_);
  free_task_ = number;
}

[[gnu::always_inline]] inline void LiveWork::move(TaskRecord& task, uint16_t to, int64_t now_ns) {
  const uint16_t from = task.state;
  if (from == to && task.transitions != 0) return;
  EdgeTotals* const totals = count_edge(from, to, now_ns - task.since_ns);
  put(task.state, to);
  put(task.since_ns, now_ns);
  add(task.transitions, uint32_t{1});
  const uint32_t place = totals != nullptr ? totals->task_edge : TaskRecord::kEdges;
  if (place >= task.edge_count || task.edges[place].from != from || task.edges[place].to != to)
    return take_other_edge(task, totals, from, to, now_ns);
  add(task.edges[place].count, uint32_t{1});
  // A task that has taken so few different edges has been in so few states that all of them are recent.
  if (task.edge_count >= TaskRecord::kRecent) come_to(task, to, now_ns);
}

/// Finds the edge among those of the task, or adds it.
[[gnu::noinline]] void LiveWork::take_other_edge(TaskRecord& task, EdgeTotals* totals, uint16_t from,
                                                 uint16_t to, int64_t now_ns) {
  uint32_t place = 0;
  while (place < task.edge_count && (task.edges[place].from != from || task.edges[place].to != to))
    ++place;
  const bool is_known = place < task.edge_count;
  if (!is_known || task.edge_count >= TaskRecord::kRecent) come_to(task, to, now_ns);
  if (place == TaskRecord::kEdges) return put(task.overflowed, uint8_t{1});
  if (totals != nullptr) totals->task_edge = place;
  TaskEdge& edge = task.edges[place];
  if (is_known) return add(edge.count, uint32_t{1});
  put(edge.from, from);
  put(edge.to, to);
  put(edge.count, uint32_t{1});
  add(task.edge_count, uint8_t{1});
}

/// A task that comes to a state which is none of the last ones gets on.
[[gnu::noinline]] void LiveWork::come_to(TaskRecord& task, uint16_t state, int64_t now_ns) {
  if (std::find(std::begin(task.recent), std::end(task.recent), state) != std::end(task.recent)) return;
  put(task.recent[task.recent_next], state);
  put(task.recent_next, static_cast<uint8_t>((task.recent_next + 1) % TaskRecord::kRecent));
  put(task.changed_ns, now_ns);
}

/// Where a task stands that waits on top of `under`.
[[gnu::noinline]] uint16_t LiveWork::find_wait_state(const LiveRecord& under, WaitKind wait) {
  const uint16_t state = state_of(under.role_path, states_[under.state].last_child, wait, under.role);
  // State 0 is also that of all for which the table had no room.
  if (under.state == 0) return state;
  hints_[under.state].wait = wait;
  return hints_[under.state].wait_state = state;
}

[[gnu::always_inline]] inline uint16_t LiveWork::state_of(uint64_t role_path, const Site* last_child,
                                                          WaitKind wait, uint16_t role) {
  // Both are spread over all bits already.
  const uint64_t key = role_path + (last_child != nullptr ? last_child->id() : 0) * 3 +
                       (static_cast<uint64_t>(wait) + 1) * kGoldenRatio;
  const uint16_t place =
      place_of(state_index_, key >> 20, [&](uint16_t state) { return states_[state].key == key; });
  return place != 0 ? place : new_state(key, role_path, last_child, wait, role);
}

[[gnu::noinline]] uint16_t LiveWork::new_state(uint64_t key, uint64_t role_path, const Site* last_child,
                                               WaitKind wait, uint16_t role) {
  const uint32_t state = states_used_.load(std::memory_order_relaxed);
  if (state >= limits_.states) {
    drop();
    return 0;
  }
  states_[state] = {key, role_path, last_child, role, wait};
  place_of(state_index_, key >> 20, [](uint16_t) { return false; }) = static_cast<uint16_t>(state);
  states_used_.store(state + 1, std::memory_order_release);
  return static_cast<uint16_t>(state);
}

uint16_t LiveWork::role_of(const Site& site) {
  const uint32_t used = roles_used_.load(std::memory_order_relaxed);
  // Few, and looked up by where they would lie if nobody else did: a daemon has some thirty.
  const uint32_t start = static_cast<uint32_t>(site.id()) & (limits_.roles - 1);
  for (uint32_t i = 0; i < limits_.roles; ++i) {
    const uint32_t role = (start + i) & (limits_.roles - 1);
    if (role == 0) continue;
    if (roles_[role].site == &site || (roles_[role].site != nullptr && roles_[role].site->id() == site.id()))
      return static_cast<uint16_t>(role);
    if (roles_[role].site != nullptr) continue;
    if (used + 1 >= limits_.roles) break;  // one stays free, so that a search ends
    put(roles_[role].site, &site);
    roles_used_.store(used + 1, std::memory_order_release);
    return static_cast<uint16_t>(role);
  }
  drop();
  return 0;
}

/// Null: there is no room for the edge.
[[gnu::always_inline]] inline EdgeTotals* LiveWork::count_edge(uint16_t from, uint16_t to,
                                                               int64_t sojourn_ns) {
  const Hint& hint = hints_[from];
  const uint16_t place = hint.next == to && hint.edge != 0 ? hint.edge : find_edge(from, to);
  if (place == 0) return nullptr;
  EdgeTotals& edge = edges_[place - 1];
  add(edge.count, uint64_t{1});
  if (from == 0) return &edge;  // nothing is spent outside
  const int64_t x = log2_q8(std::max<int64_t>(sojourn_ns, 1));
  add(edge.sum_q8, x);
  add(edge.sum_sq_q16, x * x);
  add(edge.histogram[std::min<uint64_t>(static_cast<uint64_t>(x) / 256, 31)], uint32_t{1});
  return &edge;
}

[[gnu::noinline]] uint16_t LiveWork::find_edge(uint16_t from, uint16_t to) {
  const uint64_t hash = ((uint64_t{from} << 16 | to) * kGoldenRatio) >> 40;
  uint16_t& place = place_of(edge_index_, hash, [&](uint16_t found) {
    return edges_[found - 1].from == from && edges_[found - 1].to == to;
  });
  if (place == 0) {
    const uint32_t used = edges_used_.load(std::memory_order_relaxed);
    if (used >= limits_.edges) {
      drop();
      return 0;
    }
    edges_[used].from = from;
    edges_[used].to = to;
    place = static_cast<uint16_t>(used + 1);
    edges_used_.store(used + 1, std::memory_order_release);
  }
  hints_[from].next = to;
  return hints_[from].edge = place;
}

[[gnu::always_inline]] inline void LiveWork::count_wait(uint16_t state, uint64_t target, int64_t ns) {
  uint16_t place = place_of(wait_index_, wait_hash(state, target), [&](uint16_t found) {
    return waits_[found - 1].target == target && waits_[found - 1].state == state;
  });
  if (place == 0) place = new_wait(state, target);
  if (place == 0) return;
  add(waits_[place - 1].count, uint64_t{1});
  add(waits_[place - 1].ns, static_cast<uint64_t>(std::max<int64_t>(ns, 0)));
}

[[gnu::noinline]] uint16_t LiveWork::new_wait(uint16_t state, uint64_t target) {
  const uint32_t used = waits_used_.load(std::memory_order_relaxed);
  if (used >= limits_.waits) {
    drop();
    return 0;
  }
  waits_[used].target = target;
  waits_[used].state = state;
  const auto place = static_cast<uint16_t>(used + 1);
  place_of(wait_index_, wait_hash(state, target), [](uint16_t) { return false; }) = place;
  waits_used_.store(used + 1, std::memory_order_release);
  return place;
}

TargetTotals* LiveWork::find_target(uint64_t id) {
  // Entries lie where their id says, or behind; those of one process are far fewer than the places.
  for (uint32_t i = 0; i < limits_.targets; ++i) {
    TargetTotals& target = targets_[(id + i) & (limits_.targets - 1)];
    if (target.id == id) return &target;
    if (target.id == 0) return nullptr;
  }
  return nullptr;
}

void LiveWork::name_target(uint64_t id, std::string_view name, bool device) {
  if (!is_owner() || id == 0 || find_target(id) != nullptr) return;
  const uint32_t used = targets_used_.load(std::memory_order_relaxed);
  // Half of the places stay free, so that a search is short.
  if (used >= limits_.targets / 2) return drop();
  uint32_t place = static_cast<uint32_t>(id & (limits_.targets - 1));
  while (targets_[place].id != 0)
    place = (place + 1) & (limits_.targets - 1);
  TargetTotals& target = targets_[place];
  const size_t bytes = std::min(name.size(), TargetTotals::kNameBytes);
  std::memcpy(target.name, name.data(), bytes);
  target.device = device;
  // Last: who sees the id sees the name.
  std::atomic_ref<uint64_t>(target.id).store(id, std::memory_order_release);
  targets_used_.store(used + 1, std::memory_order_relaxed);
}

void LiveWork::count_submitted(uint64_t id) {
  if (TargetTotals* const target = find_target(id)) add(target->submitted, uint64_t{1});
}

void LiveWork::complain(uint64_t id, uint16_t method) {
  TargetTotals* const target = is_owner() ? find_target(id) : nullptr;
  if (target == nullptr) return;
  std::atomic_ref<uint64_t>(target->complained_of).store(method, std::memory_order_relaxed);
  add(target->complaints, uint64_t{1});
}

void LiveWork::count_completed(uint64_t id, int64_t ns) {
  TargetTotals* const target = find_target(id);
  if (target == nullptr) return;
  add(target->completed, uint64_t{1});
  add(target->busy_ns, static_cast<uint64_t>(std::max<int64_t>(ns, 0)));
}

void LiveWork::count_unanswered(uint64_t id) {
  if (TargetTotals* const target = find_target(id)) add(target->unanswered, uint64_t{1});
}

bool LiveWork::read_record(uint32_t slot, LiveRecord& record) const {
  return slot != 0 && slot < record_slots() && copy_whole(records_[slot], record) &&
         record.kind != RegionKind::kFree;
}

bool LiveWork::read_task(uint32_t slot, TaskRecord& task) const {
  return slot != 0 && slot < task_slots() && copy_whole(tasks_[slot], task) && task.top != 0;
}

std::vector<StateRecord> LiveWork::states(uint32_t from) const {
  std::vector<StateRecord> states;
  const uint32_t used = states_used_.load(std::memory_order_acquire);
  for (uint32_t state = from; state < used; ++state)
    states.push_back(states_[state]);  // never changed once they are published
  return states;
}

std::vector<EdgeTotals> LiveWork::edges() const {
  const uint32_t used = edges_used_.load(std::memory_order_acquire);
  std::vector<EdgeTotals> edges(used);
  for (uint32_t i = 0; i < used; ++i) {
    const EdgeTotals& edge = edges_[i];
    edges[i] = {edge.from, edge.to, 0, get(edge.count), get(edge.sum_q8), get(edge.sum_sq_q16), {}};
    for (size_t bucket = 0; bucket < 32; ++bucket)
      edges[i].histogram[bucket] = get(edge.histogram[bucket]);
  }
  return edges;
}

std::vector<RoleTotals> LiveWork::roles() const {
  std::vector<RoleTotals> roles(limits_.roles);
  for (uint32_t i = 0; i < limits_.roles; ++i)
    roles[i] = {get(roles_[i].site), get(roles_[i].begun), get(roles_[i].ended), get(roles_[i].failed),
                get(roles_[i].live)};
  return roles;
}

std::vector<WaitTotals> LiveWork::waits() const {
  const uint32_t used = waits_used_.load(std::memory_order_acquire);
  std::vector<WaitTotals> waits(used);
  for (uint32_t i = 0; i < used; ++i)
    waits[i] = {waits_[i].target, waits_[i].state, get(waits_[i].count), get(waits_[i].ns)};
  return waits;
}

std::vector<TargetTotals> LiveWork::targets() const {
  std::vector<TargetTotals> targets;
  for (uint32_t i = 0; i < limits_.targets; ++i) {
    const TargetTotals& target = targets_[i];
    if (std::atomic_ref<uint64_t>(const_cast<uint64_t&>(target.id)).load(std::memory_order_acquire) == 0)
      continue;
    TargetTotals copy{};
    copy.id = target.id;
    std::memcpy(copy.name, target.name, sizeof(copy.name));
    copy.device = target.device;
    copy.submitted = get(target.submitted);
    copy.completed = get(target.completed);
    copy.busy_ns = get(target.busy_ns);
    copy.unanswered = get(target.unanswered);
    copy.complaints = get(target.complaints);
    copy.complained_of = get(target.complained_of);
    targets.push_back(copy);
  }
  return targets;
}

std::string LiveWork::target_name(uint64_t id) const {
  if (id == 0) return {};
  for (uint32_t i = 0; i < limits_.targets; ++i) {
    const TargetTotals& target = targets_[(id + i) & (limits_.targets - 1)];
    const uint64_t found =
        std::atomic_ref<uint64_t>(const_cast<uint64_t&>(target.id)).load(std::memory_order_acquire);
    if (found == id) return target.name;
    if (found == 0) break;
  }
  return {};
}

std::vector<EndedWait> LiveWork::ended_waits() const {
  std::vector<EndedWait> waits;
  for (uint32_t i = 0; i < ended_.size(); ++i) {
    EndedWait wait{};
    if (copy_whole(ended_[i], wait) && wait.ended_ns != 0) waits.push_back(wait);
  }
  return waits;
}

std::vector<std::string> LiveWork::implicit_places() const {
  std::vector<std::string> names;
  for (const Place& place : places_) {
    const Site *site = place.site.load(std::memory_order_relaxed),
               *below = place.below.load(std::memory_order_relaxed);
    if (site != nullptr && below != nullptr)
      names.push_back(std::string(site->name) + " beside what is open in " + std::string(below->name));
  }
  return names;
}

}  // namespace kintsugi::runtime

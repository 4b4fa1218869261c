#include "common/runtime/live_work.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "common/base/assert.h"

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

/// log2 in 1/256, by a table of the eight bits behind the leading one.
int64_t log2_q8(uint64_t value) {
  static const auto table = [] {
    std::array<uint8_t, 256> fractions{};
    for (size_t i = 0; i < fractions.size(); ++i)
      fractions[i] = static_cast<uint8_t>(std::lround(std::log2(1 + double(i) / 256) * 256) & 255);
    return fractions;
  }();
  if (value < 2) return 0;
  const int bits = std::bit_width(value);
  const uint64_t mantissa = bits > 9 ? value >> (bits - 9) : value << (9 - bits);
  return (int64_t{bits} - 1) * 256 + table[mantissa & 255];
}

/// Open addressing over a table of indices with at least twice as many places as there are entries: `same` says whether an
/// entry is the one that is looked for. Returns the place of its index, or the free one where it belongs.
template <class Same>
uint16_t& place_of(ZeroedArray<uint16_t>& index, uint64_t hash, Same same) {
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
      edges_(limits.edges),
      edge_index_(std::bit_ceil(size_t{limits.edges} * 2)),
      roles_(limits.roles),
      waits_(limits.waits),
      wait_index_(std::bit_ceil(size_t{limits.waits} * 2)),
      targets_(limits.targets),
      ended_(limits.ended_waits),
      ticks_(ticks && has_invariant_counter()) {
  KINTSUGI_ASSERT(limits.states <= UINT16_MAX && limits.edges < UINT16_MAX && limits.waits < UINT16_MAX);
}

int64_t LiveWork::now_ns() {
  if (!ticks_ || !is_owner()) return clock_.now().time_since_epoch().count();
  const uint64_t ticks = read_counter();
  const uint64_t since = ticks - anchor_ticks_;
  int64_t now = since < trusted_ticks_
                    ? anchor_ns_ + static_cast<int64_t>(static_cast<unsigned __int128>(since) * scale_ >> 32)
                    : calibrate(ticks);
  return latest_ns_ = std::max(latest_ns_, now);
}

int64_t LiveWork::calibrate(uint64_t ticks) {
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

LiveRecord* LiveWork::find(LiveHandle handle) {
  if (handle.slot == 0 || handle.slot >= limits_.records) return nullptr;
  LiveRecord& record = records_[handle.slot];
  return record.generation == handle.generation && record.kind != RegionKind::kFree ? &record : nullptr;
}

LiveHandle LiveWork::open(LiveHandle parent, const Opening& opening) {
  if (!is_owner()) return {};
  LiveRecord* const up = find(parent);
  const bool beside_stack = opening.kind == RegionKind::kFree;
  if (up == nullptr && (opening.site == nullptr || beside_stack)) return {};  // a wait of nobody
  uint32_t slot = free_record_;
  if (slot != 0) {
    free_record_ = records_[slot].below;
  } else {
    slot = records_used_.load(std::memory_order_relaxed);
    if (slot >= limits_.records) {
      drop();
      return {};
    }
    records_used_.store(slot + 1, std::memory_order_release);
  }

  uint32_t below = 0;
  bool implicit = false;
  if (beside_stack) {
    below = slot;
  } else if (!opening.task && up != nullptr) {
    const uint32_t top = tasks_[up->task].top;
    // A task that waits does not run: who opens something in it is somebody else. A region that is not opened from the
    // innermost one stands beside that.
    const bool beside =
        records_[top].kind == RegionKind::kWait || (opening.kind != RegionKind::kWait && top != parent.slot);
    if (beside)
      implicit = true;
    else
      below = top;
  } else if (!opening.task && parent.slot != 0) {
    implicit = true;  // what outlives the region that it was begun in is a task of its own
  }

  // Field by field into the table: nothing is put together elsewhere first, which would cost as much again.
  LiveRecord& record = records_[slot];
  uint32_t task_number = 0;
  uint16_t role = 0, state = 0;
  uint64_t role_path = 0;
  uint8_t flags = opening.background ? kFlagBackground : 0;
  if (beside_stack) {
    task_number = up->task;
    role = up->role;
    role_path = child_path(up->role_path, *opening.site);
    flags |= up->flags & kFlagBackground;
  } else if (below != 0) {
    const LiveRecord& under = records_[below];
    task_number = under.task;
    role = under.role;
    flags |= under.flags & kFlagBackground;
    const Site* last_child = nullptr;
    if (opening.site != nullptr) {
      role_path = child_path(under.role_path, *opening.site);
    } else {
      role_path = under.role_path;
      last_child = states_[under.state].last_child;
    }
    state = state_of(role_path, last_child, opening.wait, role);
  } else {
    const Site& site = opening.site != nullptr ? *opening.site : kUnmarked;
    role = role_of(site);
    role_path = child_path(0, site);
    state = state_of(role_path, nullptr, opening.wait, role);
    if (up != nullptr) flags |= up->flags & kFlagBackground;
    if (implicit) flags |= kFlagImplicit;
    task_number = begin_task(opening, up != nullptr ? up->task : 0, slot, role, implicit);
    if (task_number == 0) {
      put(record.below, free_record_);
      free_record_ = slot;
      drop();
      return {};
    }
    if (implicit) {
      const uint64_t count = implicit_.load(std::memory_order_relaxed);
      Place& place = places_[count % kPlaces];
      place.site.store(&site, std::memory_order_relaxed);
      place.below.store(up != nullptr && up->site != nullptr ? up->site : &kUnmarked,
                        std::memory_order_relaxed);
      implicit_.store(count + 1, std::memory_order_relaxed);
    }
  }
  {
    const Writing<LiveRecord> writing(record);
    put(record.trace_id, opening.trace_id);
    put(record.span_id, opening.span_id);
    put(record.parent_span_id, opening.parent_span_id);
    put(record.path, opening.path);
    put(record.role_path, role_path);
    put(record.site, opening.site);
    put(record.where, opening.where);
    put(record.entered_ns, opening.now_ns);
    put(record.progressed_ns, opening.now_ns);
    put(record.progress, uint64_t{0});
    put(record.target, opening.target);
    put(record.target_span, opening.target_span);
    put(record.task, task_number);
    put(record.role, role);
    put(record.state, state);
    put(record.below, below);
    put(record.kind, beside_stack ? RegionKind::kModule : opening.kind);
    put(record.wait, opening.wait);
    put(record.need, opening.need);
    put(record.flags, flags);
    put(record.covered_ns, int64_t{0});
  }
  const LiveRecord& stored = record;
  if (beside_stack) return {slot, stored.generation};
  TaskRecord& task = tasks_[task_number];
  {
    const Writing<TaskRecord> writing(task);
    put(task.top, slot);
    move(task, state, opening.now_ns);
  }
  if (is_request(opening.wait)) count_submitted(opening.target);
  touched_.store(slot, std::memory_order_relaxed);
  return {slot, stored.generation};
}

LiveWork::Closed LiveWork::close(LiveHandle handle, int64_t now_ns, Code outcome) {
  if (!is_owner()) return {};
  LiveRecord* const record = find(handle);
  if (record == nullptr) return {};
  const Closed closed{record->covered_ns, record->role_path, record->where};
  const int64_t duration = now_ns - record->entered_ns;
  const uint32_t below = record->below;
  TaskRecord& task = tasks_[record->task];
  if (record->kind == RegionKind::kWait) {
    count_wait(record->state, record->target, duration);
    if (is_request(record->wait)) count_completed(record->target, duration);
    // A task that gets what it asked for goes on, also when it goes round in a loop of few states.
    if (outcome == Code::kOk && is_answered(record->wait)) put(task.changed_ns, now_ns);
    if (outcome == Code::kDeadlineExceeded || outcome == Code::kCancelled || outcome == Code::kUnavailable) {
      EndedWait& ended = ended_[ended_next_++ % ended_.size()];
      const Writing<EndedWait> writing(ended);
      put(ended.outcome, outcome);
      put(ended.ended_ns, now_ns);
      put_words(ended.record, *record);
    }
  }
  const bool beside_stack = below == handle.slot;
  if (below != 0 && !beside_stack) {
    LiveRecord& under = records_[below];
    put(under.covered_ns, under.covered_ns + duration);
    if (record->site != nullptr && task.top == handle.slot)
      put(under.state, state_of(under.role_path, record->site, under.wait, under.role));
  }
  if (beside_stack) {
    // The task does not stand there.
  } else if (task.top == handle.slot && below == 0) {
    end_task(record->task, now_ns, outcome != Code::kOk);
  } else if (task.top == handle.slot) {
    const Writing<TaskRecord> writing(task);
    put(task.top, below);
    move(task, records_[below].state, now_ns);
  } else {
    // Something that was opened on it is still open, and slides down.
    uint32_t above = task.top;
    while (above != 0 && records_[above].below != handle.slot)
      above = records_[above].below;
    if (above != 0) put(records_[above].below, below);
    if (below == 0) put(task.root, above);
  }
  {
    const Writing<LiveRecord> writing(*record);
    put(record->kind, RegionKind::kFree);
    put(record->generation, record->generation + 1);
    put(record->below, free_record_);
  }
  free_record_ = handle.slot;
  touched_.store(below, std::memory_order_relaxed);
  return closed;
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

uint32_t LiveWork::begin_task(const Opening& opening, uint32_t parent_task, uint32_t root, uint16_t role,
                              bool implicit) {
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
    put(task.began_ns, opening.now_ns);
    put(task.changed_ns, opening.now_ns);
    put(task.since_ns, opening.now_ns);
    put(task.transitions, uint32_t{0});
    for (uint16_t& recent : task.recent)
      put(recent, uint16_t{0});
    put(task.recent_next, uint8_t{0});
    put(task.edge_count, uint8_t{0});
    put(task.overflowed, uint8_t{0});
    put(task.flags,
        static_cast<uint8_t>((opening.background ? kFlagBackground : 0) | (implicit ? kFlagImplicit : 0)));
  }
  add(roles_[role].begun, uint64_t{1});
  add(roles_[role].live, uint32_t{1});
  return number;
}

void LiveWork::end_task(uint32_t number, int64_t now_ns, bool failed) {
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

void LiveWork::move(TaskRecord& task, uint16_t to, int64_t now_ns) {
  const uint16_t from = task.state;
  if (from == to && task.transitions != 0) return;
  count_edge(from, to, now_ns - task.since_ns);
  put(task.state, to);
  put(task.since_ns, now_ns);
  add(task.transitions, uint32_t{1});
  bool is_known = false;
  for (size_t i = 0; i < task.edge_count && !is_known; ++i) {
    if (task.edges[i].from != from || task.edges[i].to != to) continue;
    add(task.edges[i].count, uint32_t{1});
    is_known = true;
  }
  // A task that has taken so few different edges has been in so few states that all of them are recent.
  if (is_known && task.edge_count < TaskRecord::kRecent) return;
  if (std::find(std::begin(task.recent), std::end(task.recent), to) == std::end(task.recent)) {
    put(task.recent[task.recent_next], to);
    put(task.recent_next, static_cast<uint8_t>((task.recent_next + 1) % TaskRecord::kRecent));
    put(task.changed_ns, now_ns);
  }
  if (is_known) return;
  if (task.edge_count == TaskRecord::kEdges) return put(task.overflowed, uint8_t{1});
  TaskEdge& edge = task.edges[task.edge_count];
  put(edge.from, from);
  put(edge.to, to);
  put(edge.count, uint32_t{1});
  add(task.edge_count, uint8_t{1});
}

uint16_t LiveWork::state_of(uint64_t role_path, const Site* last_child, WaitKind wait, uint16_t role) {
  // Both are spread over all bits already.
  const uint64_t key = role_path + (last_child != nullptr ? last_child->id() : 0) * 3 +
                       (static_cast<uint64_t>(wait) + 1) * kGoldenRatio;
  uint16_t& place =
      place_of(state_index_, key >> 20, [&](uint16_t state) { return states_[state].key == key; });
  if (place != 0) return place;
  const uint32_t state = states_used_.load(std::memory_order_relaxed);
  if (state >= limits_.states) {
    drop();
    return 0;
  }
  states_[state] = {key, role_path, last_child, role, wait};
  place = static_cast<uint16_t>(state);
  states_used_.store(state + 1, std::memory_order_release);
  return place;
}

uint16_t LiveWork::role_of(const Site& site) {
  const uint32_t used = roles_used_.load(std::memory_order_relaxed);
  // Few, and looked up by where they would lie if nobody else did: a daemon has some thirty.
  const uint32_t start = static_cast<uint32_t>(site.id() % limits_.roles);
  for (uint32_t i = 0; i < limits_.roles; ++i) {
    const uint32_t role = (start + i) % limits_.roles;
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

void LiveWork::count_edge(uint16_t from, uint16_t to, int64_t sojourn_ns) {
  const uint64_t hash = ((uint64_t{from} << 16 | to) * kGoldenRatio) >> 40;
  uint16_t& place = place_of(edge_index_, hash, [&](uint16_t found) {
    return edges_[found - 1].from == from && edges_[found - 1].to == to;
  });
  if (place == 0) {
    const uint32_t used = edges_used_.load(std::memory_order_relaxed);
    if (used >= limits_.edges) return drop();
    edges_[used].from = from;
    edges_[used].to = to;
    place = static_cast<uint16_t>(used + 1);
    edges_used_.store(used + 1, std::memory_order_release);
  }
  EdgeTotals& edge = edges_[place - 1];
  add(edge.count, uint64_t{1});
  if (from == 0) return;  // nothing is spent outside
  const auto ns = static_cast<uint64_t>(std::max<int64_t>(sojourn_ns, 1));
  const int64_t x = log2_q8(ns);
  add(edge.sum_q8, x);
  add(edge.sum_sq_q16, x * x);
  add(edge.histogram[std::min(static_cast<int>(std::bit_width(ns)) - 1, 31)], uint32_t{1});
}

void LiveWork::count_wait(uint16_t state, uint64_t target, int64_t ns) {
  const uint64_t hash = ((target + state) * kGoldenRatio) >> 40;
  uint16_t& place = place_of(wait_index_, hash, [&](uint16_t found) {
    return waits_[found - 1].target == target && waits_[found - 1].state == state;
  });
  if (place == 0) {
    const uint32_t used = waits_used_.load(std::memory_order_relaxed);
    if (used >= limits_.waits) return drop();
    waits_[used].target = target;
    waits_[used].state = state;
    place = static_cast<uint16_t>(used + 1);
    waits_used_.store(used + 1, std::memory_order_release);
  }
  add(waits_[place - 1].count, uint64_t{1});
  add(waits_[place - 1].ns, static_cast<uint64_t>(std::max<int64_t>(ns, 0)));
}

TargetTotals* LiveWork::find_target(uint64_t id) {
  // Entries lie where their id says, or behind; those of one process are far fewer than the places.
  for (uint32_t i = 0; i < limits_.targets; ++i) {
    TargetTotals& target = targets_[(id + i) % limits_.targets];
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
  uint32_t place = static_cast<uint32_t>(id % limits_.targets);
  while (targets_[place].id != 0)
    place = (place + 1) % limits_.targets;
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

void LiveWork::count_completed(uint64_t id, int64_t ns) {
  TargetTotals* const target = find_target(id);
  if (target == nullptr) return;
  add(target->completed, uint64_t{1});
  add(target->busy_ns, static_cast<uint64_t>(std::max<int64_t>(ns, 0)));
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
    targets.push_back(copy);
  }
  return targets;
}

std::string LiveWork::target_name(uint64_t id) const {
  if (id == 0) return {};
  for (uint32_t i = 0; i < limits_.targets; ++i) {
    const TargetTotals& target = targets_[(id + i) % limits_.targets];
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

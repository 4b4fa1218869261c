// Compiled by itself, without sleds and with general registers only (CMakeLists.txt). A test looks at what it calls: nothing.
#include "tracing/agent/payload.h"

#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tracing/agent/patching.h"
#include "tracing/agent/recording_thread.h"
#include "tracing/agent/system_call.h"

namespace kintsugi::tracing {

Shared<Recording*> current_recording{nullptr};

namespace {

// One more than a recording takes, so that threads that ended do not keep others out for long.
constexpr uint32_t kMostStates = 2 * kMostThreads;
constinit ThreadState states[kMostStates];
/// In the place of the own state of a thread that is left out: it is always in the payload.
constinit ThreadState left_out = {.inside = Shared<bool>(true)};
constinit Shared<uint64_t> lost_without_state{0};
constinit thread_local ThreadState* mine = nullptr;

// The name of the thread is asked by a system call, for its library takes locks.
void read_name(ThreadEntry& entry) {
  system_call(SYS_prctl, PR_GET_NAME, reinterpret_cast<long>(entry.name));
}

// ---- growing

void patch_taken(Recording& recording) {
  if (recording.taken_patched) return;
  recording.taken_patched = true;
  patch_functions(recording, recording.taken, recording.taken_count);
}

void change_code(Recording& recording, uint32_t function) {
  if (!recording.writable && !make_writable(recording, true)) {
    recording.growth_refused.add(1);
    return;
  }
  patch_functions(recording, &function, 1);
  const uint32_t begin = recording.call_begin[function - 1];
  patch_functions(recording, recording.callees + begin, recording.call_begin[function] - begin);
  if (recording.indirect[function - 1] != 0) patch_taken(recording);
  recording.grown_at.store(ticks());
}

/// The function was met for the first time: what it reaches is patched before it continues.
[[gnu::noinline, clang::preserve_most]] void grow(Recording& recording, uint32_t function) {
  if (recording.met[function - 1].exchange(1) != 0) return;
  recording.met_count.add(1);
  while (recording.growing.exchange(true))
    system_call(SYS_sched_yield);
  if (!recording.closed.load_relaxed()) change_code(recording, function);
  recording.growing.store(false);
}

/// The function that an address lies in; 0: none of ours.
uint32_t function_at(const Recording& recording, uint64_t address) {
  uint32_t low = 0, high = recording.start_count;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (recording.starts[middle].address <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low > 0 && address < recording.starts[low - 1].end ? recording.starts[low - 1].function : 0;
}

/// The caller was on the stack before it was traced. It is traced from now on (return-point walk-out, section 3.1.1 of the thesis).
[[gnu::noinline, clang::preserve_most]] void walk_out(Recording& recording, ThreadState& me,
                                                      uint64_t address) {
  me.last_return = address;
  const uint32_t caller = function_at(recording, address);
  if (caller != 0 && recording.met[caller - 1].load_relaxed() == 0) grow(recording, caller);
}

// ---- recording

ThreadState* claim() {
  const auto tid = static_cast<uint32_t>(system_call(SYS_gettid));
  for (ThreadState& state : states) {
    if (state.tid.load_relaxed() != 0) continue;
    if (state.claimed.exchange(true)) continue;
    state.tid.store(tid);
    return mine = &state;
  }
  return nullptr;
}

/// A thread begins to take part in a recording.
[[gnu::noinline, clang::preserve_most]] void join(Recording& recording, ThreadState& me) {
  me.recording = recording.number;
  me.entry = nullptr;
  me.block = nullptr;
  me.next = me.end = nullptr;
  me.oldest_block = me.blocks = me.sequence = 0;
  me.last_return = 0;
  const uint32_t number = recording.threads_taken.add(1);
  if (number >= kMostThreads) return;
  me.entry = &recording.threads[number];
  me.entry->tid = me.tid.load_relaxed();
  read_name(*me.entry);
}

/// What integers and pointers a function was called with. The first two stand where the trampoline saved them.
struct Arguments {
  uint64_t stack_pointer, third, fourth, fifth, sixth;

  uint64_t at(uint32_t place) const {
    constexpr uint32_t kSaved = 2, kSavedBelow = 16;
    if (place < kSaved)
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the stack of the code that was entered
      return *reinterpret_cast<const uint64_t*>(stack_pointer - kSavedBelow - sizeof(uint64_t) * (place + 1));
    return place == 2 ? third : place == 3 ? fourth : place == 4 ? fifth : sixth;
  }
};

[[gnu::noinline, clang::preserve_most]] void write_arguments(Recording& recording, ThreadState& me,
                                                             uint32_t function, const Arguments& arguments) {
  for (uint32_t place = 0; place < kMostArguments; ++place)
    if ((recording.arguments[function - 1] >> place & 1) != 0)
      write(recording, me,
            {.ticks = arguments.at(place),
             .function = function,
             .kind = Kind::kArgument,
             .extra = static_cast<uint16_t>(place + 1)});
}

/// While one lives its thread is in the payload. An event that comes meanwhile, of a signal handler or of what the payload itself
/// does, is not recorded.
class Inside {
 public:
  inline Inside() {
    me = mine;
    if (me == nullptr) [[unlikely]] {
      me = claim_here();
      if (me == nullptr) return;
    }
    if (me->inside.load_relaxed()) {
      me = nullptr;
      return;
    }
    me->inside.store(true);
    // Who ends a recording sets it to null, has all threads pass a barrier, and then looks at `inside`.
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    recording = current_recording.load();
    if (recording != nullptr && me->recording != recording->number) [[unlikely]]
      join(*recording, *me);
  }
  inline ~Inside() {
    if (me == nullptr) return;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    me->inside.store(false);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  bool records() const { return me != nullptr && recording != nullptr && !recording->empty; }

  ThreadState* me = nullptr;
  Recording* recording = nullptr;

 private:
  [[gnu::noinline, clang::preserve_most]] static ThreadState* claim_here() {
    if (current_recording.load() == nullptr) return nullptr;
    ThreadState* const claimed = claim();
    if (claimed == nullptr) lost_without_state.add(1);
    return claimed;
  }
};

/// Frames that were left without passing a sled: an exception went through them.
inline void unwind(Recording& recording, ThreadState& me, uint64_t below) {
  ThreadEntry& entry = *me.entry;
  while (entry.depth > 0 && entry.stack[entry.depth - 1].stack_pointer < below) {
    --entry.depth;
    write_record(recording, me, Kind::kExit, entry.stack[entry.depth].function, kUnwound);
  }
}

inline uint64_t returns_to(uint64_t stack_pointer) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the stack of the code that was entered
  return *reinterpret_cast<const uint64_t*>(stack_pointer);
}

inline void push(ThreadEntry& entry, uint32_t function, uint64_t stack_pointer) {
  entry.stack[entry.depth].stack_pointer = stack_pointer;
  entry.stack[entry.depth].function = function;
  ++entry.depth;
}

/// Everything that an entry may meet. All arguments are those of kintsugi_trace_entered().
[[gnu::noinline, clang::preserve_most]] void enter(uint32_t function, uint64_t stack_pointer, uint64_t third,
                                                   uint64_t fourth, uint64_t fifth, uint64_t sixth) {
  Inside inside;
  if (!inside.records()) return;
  Recording& recording = *inside.recording;
  ThreadState& me = *inside.me;
  if (me.entry == nullptr) [[unlikely]] {
    make_room(recording, me);  // counts what is lost
    return;
  }
  if (recording.met[function - 1].load_relaxed() == 0) [[unlikely]] {
    grow(recording, function);
    if (!recording.started.exchange(true)) write_record(recording, me, Kind::kStart, function, 0);
  }
  unwind(recording, me, stack_pointer + 1);
  write_record(recording, me, Kind::kEntry, function, 0);
  if (recording.arguments[function - 1] != 0) [[unlikely]]
    write_arguments(recording, me, function, {stack_pointer, third, fourth, fifth, sixth});
  if (me.entry->depth < kMostDepth) push(*me.entry, function, stack_pointer);
}

/// Everything that an exit may meet. All arguments are those of kintsugi_trace_left().
[[gnu::noinline, clang::preserve_most]] void leave(uint32_t function, uint64_t stack_pointer, uint32_t flags,
                                                   uint64_t returned) {
  Inside inside;
  if (!inside.records()) return;
  Recording& recording = *inside.recording;
  ThreadState& me = *inside.me;
  if (me.entry == nullptr) [[unlikely]] {
    make_room(recording, me);
    return;
  }
  unwind(recording, me, stack_pointer);
  ThreadEntry& entry = *me.entry;
  if (entry.depth > 0 && entry.stack[entry.depth - 1].stack_pointer == stack_pointer) {
    --entry.depth;
  } else {
    flags |= kNoEntry;
  }
  write_record(recording, me, Kind::kExit, function, static_cast<uint8_t>(flags));
  // What a tail call returns is not known yet.
  constexpr uint8_t kReturned = 1 << (kReturnedPlace - 1);
  if ((recording.arguments[function - 1] & kReturned) != 0 && (flags & kTail) == 0) [[unlikely]]
    write(recording, me,
          {.ticks = returned, .function = function, .kind = Kind::kArgument, .extra = kReturnedPlace});
  const uint64_t caller = returns_to(stack_pointer);
  if (entry.depth == 0 && caller != me.last_return) [[unlikely]]
    walk_out(recording, me, caller);
}

enum class Fast { kDone, kNotUsual };

/// Calls `record(recording, me)` when what nearly every event meets is there: the thread takes part in the recording and has
/// room for one more record, and no values of the function are recorded. Else nothing was done, and enter() or leave() does
/// it. They need all registers, and saving these took more time than all that is done here.
template <typename Record>
[[gnu::always_inline]] inline Fast try_fast(uint32_t function, Record record) {
  ThreadState* const me = mine;
  if (me == nullptr || me->inside.load_relaxed()) [[unlikely]]
    return Fast::kNotUsual;
  me->inside.store(true);
  __atomic_signal_fence(__ATOMIC_SEQ_CST);  // as in Inside
  Recording* const recording = current_recording.load();
  Fast outcome = Fast::kDone;
  if (recording != nullptr && !recording->empty)
    outcome =
        me->recording == recording->number && me->next != me->end && recording->arguments[function - 1] == 0
            ? record(*recording, *me)
            : Fast::kNotUsual;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  me->inside.store(false);
  return outcome;
}

}  // namespace

/// `stack_pointer`: where the return address lies. The frame that calls lies above it, so all that lies at or below it has ended.
/// What follows are arguments of the function that was entered, which stand in their registers still.
extern "C" [[gnu::used, clang::preserve_most]] void kintsugi_trace_entered(uint32_t function,
                                                                           uint64_t stack_pointer,
                                                                           uint64_t third, uint64_t fourth,
                                                                           uint64_t fifth, uint64_t sixth) {
  const Fast outcome = try_fast(function, [=](const Recording& recording, ThreadState& me) {
    ThreadEntry& entry = *me.entry;
    if (recording.met[function - 1].load_relaxed() == 0 || entry.depth == kMostDepth) return Fast::kNotUsual;
    if (entry.depth > 0 && entry.stack[entry.depth - 1].stack_pointer <= stack_pointer)
      return Fast::kNotUsual;
    append(me, {.ticks = ticks(), .function = function, .kind = Kind::kEntry});
    push(entry, function, stack_pointer);
    return Fast::kDone;
  });
  if (outcome == Fast::kNotUsual) [[unlikely]]
    enter(function, stack_pointer, third, fourth, fifth, sixth);
}

extern "C" [[gnu::used, clang::preserve_most]] void kintsugi_trace_left(uint32_t function,
                                                                        uint64_t stack_pointer,
                                                                        uint32_t flags, uint64_t returned) {
  const Fast outcome = try_fast(function, [=](const Recording&, ThreadState& me) {
    ThreadEntry& entry = *me.entry;
    if (entry.depth == 0 || entry.stack[entry.depth - 1].stack_pointer != stack_pointer)
      return Fast::kNotUsual;
    // Another caller of the outermost function is to be traced from now on.
    if (entry.depth == 1 && returns_to(stack_pointer) != me.last_return) return Fast::kNotUsual;
    --entry.depth;
    append(
        me,
        {.ticks = ticks(), .function = function, .kind = Kind::kExit, .flags = static_cast<uint8_t>(flags)});
    return Fast::kDone;
  });
  if (outcome == Fast::kNotUsual) [[unlikely]]
    leave(function, stack_pointer, flags, returned);
}

uint64_t lost_by_unknown_threads() {
  return lost_without_state.load_relaxed();
}

bool wait_until_idle() {
  constexpr uint32_t kMostLooks = 1'000'000;
  synchronise_code();
  for (const ThreadState& state : states)
    for (uint32_t looks = 0; state.inside.load(); ++looks) {
      if (looks == kMostLooks) return false;
      system_call(SYS_sched_yield);
    }
  return true;
}

LeftOut::LeftOut() : before_(mine) {
  mine = &left_out;
}

LeftOut::~LeftOut() {
  mine = static_cast<ThreadState*>(before_);
}

void forget_threads(bool (*lives)(uint32_t tid)) {
  for (ThreadState& state : states) {
    const uint32_t tid = state.tid.load_relaxed();
    if (tid == 0 || lives(tid)) continue;
    state.inside.store(false);
    state.tid.store(0);
    state.claimed.store(false);
  }
}

}  // namespace kintsugi::tracing

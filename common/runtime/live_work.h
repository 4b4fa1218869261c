/// The work that is open in a process: tasks, the regions of code that they are in, and what they wait for. The thread of
/// the event loop writes it as it goes; any other thread may read it at any time, also while the loop stands still.
///
/// A *task* is one sequential chain of control of one operation in one process: a handler of an RPC, a sender of a chunk, an
/// iteration of a background job. It has a stack of open records; the top says where the task stands. A *role* is what
/// tasks do that were opened at the same site. A *state* of a task is where it stands between two events: the innermost
/// open region, from the entry of the role down, the child of it that ended last, and what it waits for. State 0 is outside:
/// a task comes from it and goes to it.
///
/// Everything is in tables of fixed size, whose memory is touched only when it is used. A full table drops and counts; nothing
/// is allocated, locked or waited for.
#pragma once

#include <atomic>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/context.h"
#include "common/runtime/site.h"
#include "common/runtime/zeroed_array.h"

namespace kintsugi::runtime {

/// What must happen before a task goes on. The numbers are those of proto::WaitKind.
enum class WaitKind : uint8_t {
  kNone = 0,     ///< it runs, or could
  kCall = 1,     ///< the answer of an RPC: target = the callee, target_span = the call's span
  kReceive = 2,  ///< a frame of a stream that it opened: as kCall
  kSend = 3,     ///< room in a stream that it opened: as kCall
  kUpstream =
      4,  ///< a handler waits for its caller's next frame, or for its caller to take one: target_span = the caller's
  kJoin = 5,      ///< its own children: target_span = its own span; need = how many of them, 0 = all
  kSibling = 6,   ///< another task of this process: target_span
  kResource = 7,  ///< slots, buffers, a lock with several holders
  kDisk = 8,      ///< a device
  kStore = 9,     ///< the thread of the key-value store
  kTimer = 10,    ///< sleeps on purpose
  kIdle = 11,     ///< waits for work to come: never stuck
};
inline constexpr size_t kWaitKinds = 12;

enum class RegionKind : uint8_t { kFree = 0, kModule, kWait, kCompute };

/// An open region or wait.
struct LiveRecord {
  uint32_t sequence, generation;  ///< odd while the record is being written
  uint64_t trace_id, span_id, parent_span_id;
  uint64_t path, role_path;  ///< calling context in all processes; from the entry of the role down
  const Site* site;          ///< null: a wait
  std::source_location where;
  int64_t entered_ns,
      progressed_ns;  ///< of the process's clock; when the progress changed last, or it was entered
  uint64_t progress;  ///< in the site's unit
  uint64_t target, target_span;  ///< see LiveWork::name_target
  uint32_t task;
  uint16_t role, state;
  /// The record of the same task that it lies on; 0: it is the task's root; itself: it lies beside the stack, as a stream does,
  /// which the task holds and only now and then waits for.
  uint32_t below;
  RegionKind kind;
  WaitKind wait;
  uint8_t need, flags;
  int64_t covered_ns;  ///< taken by children and waits that ended
};
static_assert(sizeof(LiveRecord) == 128);

inline constexpr uint8_t kFlagBackground = 1;  ///< nobody's operation waits for the task
inline constexpr uint8_t kFlagImplicit = 2;    ///< nobody marked the task as one: children stood side by side

struct TaskEdge {
  uint16_t from, to;
  uint32_t count;
};

/// An open task.
struct TaskRecord {
  static constexpr size_t kEdges = 24;
  static constexpr size_t kRecent = 10;

  uint32_t sequence, generation;
  uint32_t root, top;  ///< records; top 0: free
  uint32_t parent_task;
  uint16_t role, state;
  int64_t began_ns;
  int64_t
      changed_ns;  ///< when it last came to a state that is none of the recent ones, made progress, or got an answer
  int64_t since_ns;  ///< when it came to its state
  uint32_t transitions;
  uint16_t recent[kRecent];  ///< the last distinct states
  uint8_t recent_next, edge_count, overflowed, flags;
  uint32_t reserved;
  TaskEdge edges[kEdges];  ///< its own transitions; `overflowed` when there were others
  uint64_t reserved_more[6];
};
static_assert(sizeof(TaskRecord) == 320);

/// Transitions of all tasks of the process between two states, since its start.
struct EdgeTotals {
  uint16_t from, to;
  uint32_t task_edge;  ///< which of its own edges it was to the task that took it last; for the writer only
  uint64_t count;
  int64_t sum_q8, sum_sq_q16;  ///< of x = log2(nanoseconds spent in `from` before), in 1/256 and its square
  uint32_t histogram[32];      ///< by octave: bucket i has 2^i ns and more, the last one is open
};
static_assert(sizeof(EdgeTotals) == 160);

struct StateRecord {
  uint64_t key, role_path;
  const Site* last_child;  ///< null: none ended yet
  uint16_t role;
  WaitKind wait;
};

struct RoleTotals {
  const Site* site;
  uint64_t begun, ended, failed;
  uint32_t live;
};

struct WaitTotals {
  uint64_t target;
  uint32_t state;
  uint64_t count, ns;
};

/// What may be waited for by name: a peer, a device.
struct TargetTotals {
  static constexpr size_t kNameBytes = 63;
  uint64_t id;
  char name[kNameBytes + 1];
  bool device;
  uint64_t submitted, completed, busy_ns;  ///< waits of kind kCall and kDisk for it
  uint64_t unanswered;                     ///< of the completed: were given up
  uint64_t complaints;                     ///< messages of it that were damaged, missing, or came twice
  uint64_t complained_of;  ///< the number of the RPC method whose message was the last of them
};

/// A wait that ended without what it waited for.
struct EndedWait {
  uint32_t sequence;
  Code outcome;
  int64_t ended_ns;
  LiveRecord record;
};

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
  /// `ticks`: reads the processor's counter instead of the clock, where that is exact. REQUIRES: the clock is the steady
  /// one then.
  explicit LiveWork(const Clock& clock, bool ticks = false, LiveLimits limits = {});
  LiveWork(const LiveWork&) = delete;
  LiveWork& operator=(const LiveWork&) = delete;

  /// The clock's time, faster.
  int64_t now_ns();

  // ---- what the loop's thread writes. Calls of other threads do nothing: the first one that opens a record is the loop's.

  struct Opening {
    const Site* site = nullptr;
    std::source_location where;
    RegionKind kind = RegionKind::kModule;
    uint64_t trace_id = 0, span_id = 0, parent_span_id = 0, path = 0;
    bool task = false;  ///< begins a task of its own; else it lies on the task of `parent`
    bool background = false;
    WaitKind wait = WaitKind::kNone;
    uint8_t need = 0;
    uint64_t target = 0, target_span = 0;
    int64_t now_ns = 0;
  };
  /// REQUIRES: the opening has a site.
  /// A region of the kind kFree is held by the task of its parent and lies beside the stack (see LiveRecord::below).
  /// A region whose parent is not the top of its task stands beside what is open there: it begins a task, which counts as
  /// implicit. A wait lies on the top of its parent's task, unless that is a wait too.
  LiveHandle open(LiveHandle parent, const Opening& opening);
  /// Opens a wait without a site, in the task that is open in `context`; without one nothing is opened.
  LiveHandle open_wait(const Context& context, WaitKind wait, uint64_t target, uint64_t target_span,
                       uint8_t need, std::source_location where);
  struct Closed {
    int64_t covered_ns = 0;  ///< what children and waits took
    uint64_t role_path = 0;
    std::source_location where;
  };
  /// `outcome` says how it ended; a wait that ended badly is remembered for a while.
  Closed close(LiveHandle record, int64_t now_ns, Code outcome = Code::kOk);
  /// The same, now, of what open_wait() opened.
  void close_wait(LiveHandle wait, Code outcome);
  /// Something moved: `progress` is a count in the site's unit.
  void progress(LiveHandle record, uint64_t progress, int64_t now_ns);
  /// The same, as an amount that is added.
  void advance(LiveHandle record, uint64_t amount, int64_t now_ns);

  /// Makes a name known under an id (a hash of it) that records have as their target. Cheap when it is known already.
  void name_target(uint64_t id, std::string_view name, bool device = false);
  /// A message of a peer was damaged, missing, or came twice.
  void complain(uint64_t target, uint16_t method);
  bool knows_target(uint64_t id) { return is_owner() && find_target(id) != nullptr; }

  // ---- what any thread may read. A record that is being written meanwhile is left out.

  uint32_t record_slots() const { return records_used_.load(std::memory_order_acquire); }
  bool read_record(uint32_t slot, LiveRecord& record) const;  ///< false: free, or just being written
  uint32_t task_slots() const { return tasks_used_.load(std::memory_order_acquire); }
  bool read_task(uint32_t slot, TaskRecord& task) const;
  std::vector<StateRecord> states(uint32_t from = 1) const;  ///< of the ids `from` and up
  std::vector<EdgeTotals> edges() const;
  std::vector<RoleTotals> roles() const;  ///< [0] is role 0, which is none
  std::vector<WaitTotals> waits() const;
  std::vector<TargetTotals> targets() const;
  std::string target_name(uint64_t id) const;  ///< empty: not known
  std::vector<EndedWait> ended_waits() const;
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  uint64_t implicit_tasks() const { return implicit_.load(std::memory_order_relaxed); }
  /// Where tasks stood when they became implicit ones, for tests and logs: the newest at most.
  std::vector<std::string> implicit_places() const;
  uint32_t last_touched() const { return touched_.load(std::memory_order_relaxed); }
  const Clock& clock() const { return clock_; }

 private:
  bool is_owner();
  void drop() { dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  LiveRecord* find(LiveHandle handle);
  /// Where a record that is opened belongs.
  struct Standing {
    uint32_t task = 0;  ///< 0: there is no room for it
    uint32_t below = 0;
    uint16_t role = 0, state = 0;
    uint8_t flags = 0;
    uint64_t role_path = 0;
  };
  int64_t own_now_ns();  ///< REQUIRES: is_owner()
  uint32_t take_slot();  ///< 0: none is free
  void free_slot(uint32_t slot);
  void fill(LiveRecord& record, const Opening& opening, const Standing& standing, RegionKind kind);
  void step_on(uint32_t slot, const Standing& standing, WaitKind wait, uint64_t target, int64_t now_ns);
  void end_wait(const LiveRecord& record, int64_t duration_ns, int64_t now_ns, Code outcome);
  void step_off(LiveRecord& record, uint32_t slot, int64_t duration_ns, int64_t now_ns, Code outcome,
                const Site* site);
  uint32_t begin_task(bool background, int64_t now_ns, uint32_t parent_task, uint32_t root, uint16_t role,
                      bool implicit);
  uint16_t state_of(uint64_t role_path, const Site* last_child, WaitKind wait, uint16_t role);
  uint16_t role_of(const Site& site);
  void move(TaskRecord& task, uint16_t to, int64_t now_ns);
  EdgeTotals* count_edge(uint16_t from, uint16_t to, int64_t sojourn_ns);
  void count_wait(uint16_t state, uint64_t target, int64_t ns);
  void count_submitted(uint64_t target);
  void count_completed(uint64_t target, int64_t ns);
  void count_unanswered(uint64_t target);

  // What happens seldom. These save the registers that they use, so that what happens always keeps its values in them.
  [[clang::preserve_most]] Standing stand_as_task(const Site* site, WaitKind wait, bool background,
                                                  int64_t now_ns, const LiveRecord* parent, uint32_t slot,
                                                  bool implicit);
  [[clang::preserve_most]] void end_task(uint32_t task, int64_t now_ns, bool failed);
  [[clang::preserve_most]] uint16_t new_state(uint64_t key, uint64_t role_path, const Site* last_child,
                                              WaitKind wait, uint16_t role);
  [[clang::preserve_most]] uint16_t find_edge(uint16_t from, uint16_t to);
  [[clang::preserve_most]] uint16_t find_wait_state(const LiveRecord& under, WaitKind wait);
  [[clang::preserve_most]] uint16_t new_wait(uint16_t state, uint64_t target);
  [[clang::preserve_most]] void take_other_edge(TaskRecord& task, EdgeTotals* totals, uint16_t from,
                                                uint16_t to, int64_t now_ns);
  [[clang::preserve_most]] void come_to(TaskRecord& task, uint16_t state, int64_t now_ns);
  [[clang::preserve_most]] void remember(const LiveRecord& record, int64_t now_ns, Code outcome);
  [[clang::preserve_most]] int64_t calibrate(uint64_t ticks);
  TargetTotals* find_target(uint64_t id);

  const Clock& clock_;
  LiveLimits limits_;
  std::atomic<uintptr_t> owner_{0};

  ZeroedArray<LiveRecord> records_;
  std::atomic<uint32_t> records_used_{1};  ///< slot 0 is nobody's
  uint32_t free_record_ = 0;               ///< a list by `below`
  ZeroedArray<TaskRecord> tasks_;
  std::atomic<uint32_t> tasks_used_{1};
  uint32_t free_task_ = 0;  ///< a list by `parent_task`

  ZeroedArray<StateRecord> states_;
  std::atomic<uint32_t> states_used_{1};
  ZeroedArray<uint16_t> state_index_;
  /// A hint notes which state followed a state the last time. The same one mostly follows again, and then no index is searched.
  struct Hint {
    uint16_t next, edge;  ///< edge: as in edge_index_; 0: none yet
    uint16_t wait_state;  ///< where a task stands that waits there; 0: none yet
    WaitKind wait;
  };
  ZeroedArray<Hint> hints_;  ///< by state; for the writer only
  ZeroedArray<EdgeTotals> edges_;
  std::atomic<uint32_t> edges_used_{0};
  ZeroedArray<uint16_t> edge_index_;
  ZeroedArray<RoleTotals> roles_;
  std::atomic<uint32_t> roles_used_{1};
  ZeroedArray<WaitTotals> waits_;
  std::atomic<uint32_t> waits_used_{0};
  ZeroedArray<uint16_t> wait_index_;
  ZeroedArray<TargetTotals> targets_;
  std::atomic<uint32_t> targets_used_{0};
  ZeroedArray<EndedWait> ended_;
  uint32_t ended_next_ = 0;

  static constexpr size_t kPlaces = 16;
  struct Place {
    std::atomic<const Site*> site, below;
  };
  Place places_[kPlaces]{};

  std::atomic<uint64_t> dropped_{0}, implicit_{0};
  std::atomic<uint32_t> touched_{0};

  // The processor's counter against the clock: ns = anchor_ns_ + (ticks - anchor_ticks_) * scale_ / 2^32.
  bool ticks_;
  uint64_t anchor_ticks_ = 0, scale_ = 0, trusted_ticks_ = 0;
  int64_t anchor_ns_ = 0, latest_ns_ = 0;
};

}  // namespace kintsugi::runtime

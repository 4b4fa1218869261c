/// What runs in a daemon, as it is told to whoever keeps records of it. The recorder is an interface, since what is
/// kept, and how it is read, is a matter of monitoring (monitoring/sight/recorder.h).
///
/// A *task* is one sequential chain of control of one operation in one process: a handler of an RPC, a sender of a
/// chunk, an iteration of a background job. It is in *regions* of code that lie on one another, and on top of them it
/// may *wait*.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <source_location>
#include <string_view>

#include "common/base/hash.h"
#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/context.h"
#include "common/runtime/site.h"

namespace kintsugi {
namespace runtime {

/// What must happen before a task continues. The numbers are those of proto::WaitKind.
enum class WaitKind : uint8_t {
  kNone = 0,     ///< the task runs, or could run
  kCall = 1,     ///< the answer of an RPC: target = the callee, target_span = the call's span
  kReceive = 2,  ///< a frame of a stream that the task opened; targets as for kCall
  kSend = 3,     ///< room in a stream that the task opened; targets as for kCall
  /// A handler waits for its caller's next frame, or for its caller to take one: target_span = the caller's span.
  kUpstream = 4,
  kJoin = 5,     ///< the task's own children: target_span = its own span; need = how many of them, 0 = all
  kSibling = 6,  ///< another task of this process: target_span
  /// Slots, buffers, a lock; target: what it is; target_span: a task that has it, 0: not known.
  kResource = 7,
  kDisk = 8,    ///< a device
  kStore = 9,   ///< the thread of the key-value store
  kTimer = 10,  ///< the end of a sleep on purpose
  kIdle = 11,   ///< work to come: such a task is never stuck
  /// Another process has what it waits for; target: what it is; target_span: TraceRecorder::process() of that one, 0: not
  /// known.
  kProcess = 12,
};
inline constexpr size_t kWaitKinds = 13;

enum class RegionKind : uint8_t { kFree = 0, kModule, kWait, kCompute };

/// One finished execution of a region. Without initialisers: it lies in every region's frame, also where nothing is
/// recorded.
struct SpanEvent {
  const Site* site;
  uint64_t trace_id, span_id, parent_span_id;
  uint64_t path;  ///< the calling context, this site included
  TimePoint entered;
  Duration duration;
  Duration self;  ///< the duration without children of the same task and without waits
  std::array<float, kMaxInputs> inputs;
  std::array<float, kMaxOutputs> outputs;
  uint8_t input_count, output_mask;
  Code code;
};
static_assert(sizeof(SpanEvent) == 128);

/// A region or wait that begins.
struct Opening {
  const Site* site = nullptr;  ///< null: a wait
  std::source_location where;
  RegionKind kind = RegionKind::kModule;
  uint64_t trace_id = 0, span_id = 0, parent_span_id = 0, path = 0;
  bool task = false;  ///< whether it begins a task of its own; else it lies on the task of its parent
  bool background = false;
  /// The task is one of very many alike. While none of them waits, most are only counted; whatever fails or takes a
  /// millisecond is recorded.
  bool often = false;
  WaitKind wait = WaitKind::kNone;
  uint8_t need = 0;
  uint64_t target = 0, target_span = 0;
};

}  // namespace runtime

/// Keeps records of work: sight::Recorder is one. One thread, the loop's, is recorded by all functions but new_id().
class TraceRecorder {
 public:
  explicit TraceRecorder(uint64_t seed) : seed_(mix_bits(seed)), process_(mix_bits(~seed) | 1) {}
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  struct Opened {
    runtime::LiveHandle region;  ///< slot 0: the region is not recorded, because the table is full
    TimePoint entered;
  };
  /// A region begins below what is open as `parent`. REQUIRES: the opening has a site.
  virtual Opened open(runtime::LiveHandle parent, const runtime::Opening& opening) = 0;
  /// A region of a task that is recorded lightly begins: its first one (`begins`; see Opening::often), or one on top of
  /// `parent`, which is_light(). The event has all but times and outcome. Slot 0: nothing was done, use open().
  virtual Opened open_lightly(runtime::LiveHandle parent, const runtime::SpanEvent& event,
                              std::source_location where, runtime::RegionKind kind, bool begins) = 0;
  /// The region ends: gives the event its durations and keeps it. `region` may be stale, or none.
  virtual void close(runtime::LiveHandle region, uint64_t parent_path, runtime::SpanEvent& event) = 0;
  /// A wait begins in the task that is open in `context`; without one nothing is opened.
  virtual runtime::LiveHandle open_wait(const Context& context, runtime::WaitKind wait, uint64_t target,
                                        uint64_t target_span, uint8_t need, std::source_location where) = 0;
  /// The wait ends; `outcome` says how.
  virtual void close_wait(runtime::LiveHandle wait, Code outcome) = 0;
  /// The call with this span, of another process, was handled to its end. `site`: what serves such calls.
  virtual void served(uint64_t call, const runtime::Site& site, Code outcome) = 0;
  /// The region moved: `count` of its site's unit are done.
  virtual void progress(runtime::LiveHandle region, uint64_t count) = 0;
  /// The region moved: `amount` more of its site's unit is done.
  virtual void advance(runtime::LiveHandle region, uint64_t amount) = 0;
  virtual bool knows_target(uint64_t id) = 0;
  /// Makes the name known of what is waited for under this id (a hash of the name).
  virtual void name_target(uint64_t id, std::string_view name, bool device) = 0;
  /// A message of that target was damaged, missing, or came twice. `method` is the number of its RPC method.
  virtual void complain(uint64_t target, uint16_t method) = 0;
  /// So many bytes came from the target, and so many went to it: of streams of a peer, or of a disk.
  virtual void count_bytes(uint64_t target, uint64_t in, uint64_t out) = 0;

  /// The id of this process in its reports to the monitor; never 0.
  uint64_t process() const { return process_; }
  /// True if the region may be one of a task that is recorded lightly. Any thread may call it.
  bool is_light(runtime::LiveHandle region) const {
    return region.slot != 0 && region.slot == light_.load(std::memory_order_relaxed);
  }
  /// Consecutive counters become well spread ids that never repeat. Any thread may call it.
  uint64_t new_id() {
    const uint64_t id = mix_bits(seed_ + ids_.fetch_add(1, std::memory_order_relaxed));
    return id == 0 ? 1 : id;
  }

 protected:
  ~TraceRecorder() = default;
  void set_light(uint32_t slot) { light_.store(slot, std::memory_order_relaxed); }

 private:
  const uint64_t seed_, process_;
  std::atomic<uint64_t> ids_{0};
  std::atomic<uint32_t> light_{0};  ///< slot of the innermost region that is open lightly, if any is
};

}  // namespace kintsugi

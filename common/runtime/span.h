/// What is recorded of a region of code: the open record of it, and an event when it ends. sight::Module is made of
/// it, and so are the two sides of an RPC; and a Wait, which is open only, marks what a coroutine is suspended for.
///
/// ```cpp
/// runtime::Wait wait{context, WaitKind::kResource};
/// Status acquired = wait.finish(co_await gate.acquire(context.deadline));
/// ```
///
/// With the CMake option KINTSUGI_SIGHT=OFF nothing of this is compiled in.
#pragma once

#include <source_location>
#include <string_view>

#include "common/base/status.h"
#include "common/runtime/context.h"
#include "common/runtime/network.h"
#include "common/runtime/site.h"
#include "common/runtime/trace_recorder.h"

namespace kintsugi::runtime {

#ifdef KINTSUGI_NO_SIGHT
inline constexpr bool kSightCompiled = false;
#else
inline constexpr bool kSightCompiled = true;
#endif

/// Not copied or moved. Nothing is recorded where the parent has no recorder.
class Span {
 public:
  struct Options {
    /// With kFree the span is not a place where the task stands: the task only holds it open.
    RegionKind kind = RegionKind::kModule;
    bool task = false;        ///< the span begins a task of its own
    bool background = false;  ///< the span begins a task that nobody's operation waits for
    bool often = false;       ///< whether the region is opened often (Opening)
    WaitKind wait = WaitKind::kNone;
    uint64_t target = 0;  ///< what the wait is for; its target_span is this span
  };
  /// REQUIRES: `site` outlives the recorder.
  Span(const Context& parent, const Site& site, const Options& options, std::source_location where)
      : context_(parent) {
    if (kSightCompiled && parent.recorder != nullptr) begin(parent, site, options, where);
  }
  ~Span() {
    if (recording()) end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  /// The context for nested work: the same deadline, this span as the parent. A trace id is made if the parent had
  /// none.
  const Context& context() const { return context_; }
  /// Says that the work continues: `count` of the site's unit are done (bytes, slices, entries).
  void progress(uint64_t count);
  /// Records the outcome and hands the status through. The first call that is not ok stays.
  Status finish(Status status) {
    set_code(status.code());
    return status;
  }
  void set_code(Code code) {
    if (recording() && event_.code == Code::kOk) event_.code = code;
  }

 protected:
  bool recording() const { return kSightCompiled && context_.recorder != nullptr; }

  SpanEvent event_;

 private:
  void begin(const Context& parent, const Site& site, const Options& options, std::source_location where);
  void open(const Context& parent, const Options& options, std::source_location where);
  void end();

  Context context_;
  uint64_t parent_path_;
};

/// Marks what the coroutine waits for, for as long as the object lives. Not a span: no event comes of it.
class Wait {
 public:
  Wait(const Context& context, WaitKind kind, uint64_t target = 0, uint64_t target_span = 0, uint8_t need = 0,
       std::source_location where = std::source_location::current())
      : recorder_(kSightCompiled && context.live.slot != 0 ? context.recorder : nullptr) {
    if (recorder_ == nullptr) return;
    if (target_span == 0 && kind == WaitKind::kJoin) target_span = context.trace.span_id;
    handle_ = recorder_->open_wait(context, kind, target, target_span, need, where);
  }
  ~Wait() { stop(); }
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  /// Says how the wait ended, and hands the status through.
  Status finish(Status status) {
    code_ = status.code();
    return status;
  }
  void set_code(Code code) { code_ = code; }
  /// Ends it before the object dies. Idempotent.
  void stop() {
    if (handle_.slot != 0) recorder_->close_wait(handle_, code_);
    handle_ = {};
  }

 private:
  TraceRecorder* recorder_;
  LiveHandle handle_;
  Code code_ = Code::kOk;
};

/// Says that a call of another process was handled to its end; `call` is its span there.
void served(const Context& context, uint64_t call, const Site& site, Code outcome);

/// Says that the innermost open region moved, as by `bytes` of a stream.
void advance(const Context& context, uint64_t amount);

/// The id of a peer as what is waited for. Its name becomes known when it is used for the first time.
uint64_t peer_target(const Context& context, const Endpoint& peer);
/// A message of the peer, of the RPC method of that number, was damaged, missing, or came twice: whoever watches the
/// cluster counts them.
void complain_of(const Context& context, const Endpoint& peer, uint16_t method);
/// Counts the bytes that came from a peer or a disk (`in`), and that went to it. Target 0: nothing is counted.
void count_bytes(const Context& context, uint64_t target, uint64_t in, uint64_t out);
/// The id of something else with a name, as a disk.
uint64_t named_target(const Context& context, std::string_view name, bool device = false);

}  // namespace kintsugi::runtime

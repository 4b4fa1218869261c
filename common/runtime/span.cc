#include "common/runtime/span.h"

namespace kintsugi::runtime {

namespace {

TimePoint at(int64_t ns) {
  return TimePoint(Duration(ns));
}

}  // namespace

void Span::begin(const Context& parent, const Site& site, const Options& options,
                 std::source_location where) {
  TraceRecorder& recorder = *parent.recorder;
  if (context_.trace.trace_id == 0) context_.trace.trace_id = recorder.new_id();
  context_.trace.span_id = recorder.new_id();
  context_.trace.path = child_path(parent.trace.path, site);
  parent_path_ = parent.trace.path;
  const int64_t now = recorder.live().now_ns();
  event_.site = &site;
  event_.trace_id = context_.trace.trace_id;
  event_.span_id = context_.trace.span_id;
  event_.parent_span_id = parent.trace.span_id;
  event_.path = context_.trace.path;
  event_.entered = at(now);
  event_.inputs = {};
  event_.outputs = {};
  event_.input_count = event_.output_mask = 0;
  event_.code = Code::kOk;
  opened_ = true;
  context_.live =
      recorder.live().open(parent.live, {.site = &site,
                                         .where = where,
                                         .kind = options.kind,
                                         .trace_id = event_.trace_id,
                                         .span_id = event_.span_id,
                                         .parent_span_id = event_.parent_span_id,
                                         .path = event_.path,
                                         .task = options.task,
                                         .background = options.background,
                                         .wait = options.wait,
                                         .target = options.target,
                                         .target_span = options.wait == WaitKind::kNone ? 0 : event_.span_id,
                                         .now_ns = now});
}

void Span::end() {
  TraceRecorder& recorder = *context_.recorder;
  const int64_t now = recorder.live().now_ns();
  const LiveWork::Closed closed =
      opened_ ? recorder.live().close(context_.live, now, event_.code) : LiveWork::Closed{};
  event_.duration = at(now) - event_.entered;
  event_.self = std::max(Duration::zero(), event_.duration - Duration(closed.covered_ns));
  recorder.record(event_, parent_path_, closed);
}

void Span::progress(uint64_t count) {
  if (!recording() || !opened_) return;
  LiveWork& live = context_.recorder->live();
  live.progress(context_.live, count, live.now_ns());
}

void Wait::begin(const Context& context, WaitKind kind, uint64_t target, uint64_t target_span, uint8_t need,
                 std::source_location where) {
  LiveWork& live = recorder_->live();
  if (target_span == 0 && kind == WaitKind::kJoin) target_span = context.trace.span_id;
  handle_ = live.open_wait(context, kind, target, target_span, need, where);
}

void Wait::end() {
  if (handle_.slot != 0) recorder_->live().close_wait(handle_, code_);
}

void advance(const Context& context, uint64_t amount) {
  if (!kSightCompiled || context.recorder == nullptr || context.live.slot == 0) return;
  LiveWork& live = context.recorder->live();
  live.advance(context.live, amount, live.now_ns());
}

uint64_t peer_target(const Context& context, const Endpoint& peer) {
  if (!kSightCompiled || context.recorder == nullptr) return 0;
  const uint64_t id = mix_bits(hash_name(peer.host) + peer.port);
  LiveWork& live = context.recorder->live();
  if (!live.knows_target(id)) live.name_target(id, peer.to_string());
  return id;
}

void complain_of(const Context& context, const Endpoint& peer, uint16_t method) {
  if (const uint64_t id = peer_target(context, peer); id != 0) context.recorder->live().complain(id, method);
}

uint64_t named_target(const Context& context, std::string_view name, bool device) {
  if (!kSightCompiled || context.recorder == nullptr) return 0;
  const uint64_t id = mix_bits(hash_name(name));
  context.recorder->live().name_target(id, name, device);
  return id;
}

}  // namespace kintsugi::runtime

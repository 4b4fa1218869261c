#include "common/runtime/span.h"

#include "common/runtime/activity_log.h"

namespace kintsugi::runtime {

namespace {

/// The activity log of the process if it has one and tells of the site.
ActivityLog* activity_of(const Site& site) {
  ActivityLog* const log = process_activity_log.load(std::memory_order_relaxed);
  return log != nullptr && log->wants(site) ? log : nullptr;
}

}  // namespace

void Span::begin(const Context& parent, const Site& site, const Options& options,
                 std::source_location where) {
  TraceRecorder& recorder = *parent.recorder;
  if (context_.trace.trace_id == 0) context_.trace.trace_id = recorder.new_id();
  context_.trace.span_id = recorder.new_id();
  context_.trace.path = child_path(parent.trace.path, site);
  parent_path_ = parent.trace.path;
  event_.site = &site;
  event_.trace_id = context_.trace.trace_id;
  event_.span_id = context_.trace.span_id;
  event_.parent_span_id = parent.trace.span_id;
  event_.path = context_.trace.path;
  event_.inputs = {};
  event_.outputs = {};
  event_.input_count = event_.output_mask = 0;
  event_.code = Code::kOk;
  if (ActivityLog* const log = activity_of(site)) log->start(site, event_.span_id);
  const bool begins = options.often && parent.live.slot == 0;
  if (begins || (recorder.is_light(parent.live) && !options.task && options.wait == WaitKind::kNone &&
                 options.kind != RegionKind::kFree)) {
    const TraceRecorder::Opened light =
        recorder.open_lightly(parent.live, event_, where, options.kind, begins);
    context_.live = light.region;
    event_.entered = light.entered;
    if (light.region.slot != 0) return;
  }
  open(parent, options, where);
}

void Span::open(const Context& parent, const Options& options, std::source_location where) {
  const TraceRecorder::Opened opened = context_.recorder->open(
      parent.live, {.site = event_.site,
                    .where = where,
                    .kind = options.kind,
                    .trace_id = event_.trace_id,
                    .span_id = event_.span_id,
                    .parent_span_id = event_.parent_span_id,
                    .path = event_.path,
                    .task = options.task,
                    .background = options.background,
                    .often = options.often,
                    .wait = options.wait,
                    .target = options.target,
                    .target_span = options.wait == WaitKind::kNone ? 0 : event_.span_id});
  context_.live = opened.region;
  event_.entered = opened.entered;
}

void Span::end() {
  if (ActivityLog* const log = activity_of(*event_.site))
    log->stop(*event_.site, event_.span_id, event_.code);
  context_.recorder->close(context_.live, parent_path_, event_);
}

void Span::progress(uint64_t count) {
  if (recording()) context_.recorder->progress(context_.live, count);
}

void served(const Context& context, uint64_t call, const Site& site, Code outcome) {
  if (kSightCompiled && context.recorder != nullptr && call != 0)
    context.recorder->served(call, site, outcome);
}

void advance(const Context& context, uint64_t amount) {
  if (!kSightCompiled || context.recorder == nullptr || context.live.slot == 0) return;
  context.recorder->advance(context.live, amount);
}

uint64_t peer_target(const Context& context, const Endpoint& peer) {
  if (!kSightCompiled || context.recorder == nullptr) return 0;
  const uint64_t id = mix_bits(hash_name(peer.host) + peer.port);
  if (!context.recorder->knows_target(id)) context.recorder->name_target(id, peer.to_string(), false);
  return id;
}

void complain_of(const Context& context, const Endpoint& peer, uint16_t method) {
  if (const uint64_t id = peer_target(context, peer); id != 0) context.recorder->complain(id, method);
}

void count_bytes(const Context& context, uint64_t target, uint64_t in, uint64_t out) {
  if (kSightCompiled && context.recorder != nullptr && target != 0)
    context.recorder->count_bytes(target, in, out);
}

uint64_t named_target(const Context& context, std::string_view name, bool device) {
  if (!kSightCompiled || context.recorder == nullptr) return 0;
  const uint64_t id = mix_bits(hash_name(name));
  context.recorder->name_target(id, name, device);
  return id;
}

}  // namespace kintsugi::runtime

#include "tracing/events/process_events.h"

#include <fmt/format.h>

#include "common/base/hash.h"
#include "common/rpc/frame.h"
#include "tracing/repository/recorded_arguments.h"

namespace kintsugi::tracing {

ProcessEvents::ProcessEvents(const NamedTrace& named, DirectiveSites& sites, EventWriter& writer)
    : named_(named),
      sites_(sites),
      writer_(writer),
      coroutines_(writer),
      elsewhere_(writer.function(kElsewhere)),
      threads_(named.trace.threads.size()) {
  for (size_t i = 0; i < named.functions.size(); ++i) {
    std::string name = named.functions[i].empty() ? fmt::format("function {}", i + 1) : named.functions[i];
    const Role role = role_of(name);
    // Where a coroutine goes on is known without them.
    const bool is_directed = role == Role::kPlain;
    functions_.push_back({role, writer_.function(name), name == kContinues,
                          is_directed ? sites_.of(name) : std::span<const uint32_t>()});
  }
}

ProcessEvents::Role ProcessEvents::role_of(std::string& name) {
  for (const auto& [part, role] : {std::pair{kResumed, Role::kResumed},
                                   {kDestroyed, Role::kDestroyed},
                                   {kCleanedUp, Role::kDestroyed}}) {
    if (!name.ends_with(part)) continue;
    if (role == Role::kResumed) name.resize(name.size() - part.size());
    return role;
  }
  if (name == kFrameSent) return Role::kSent;
  if (name == kFrameReceived) return Role::kReceived;
  return Role::kPlain;
}

void ProcessEvents::run() {
  const Trace& trace = named_.trace;
  // A process that was killed has run no longer than its last record says.
  writer_.begin_process({.name = named_.process,
                         .binary = named_.binary,
                         .end_ns = trace.end == End::kNone ? 0 : trace.latest.unix_ns});
  size_t records = 0;
  for (const ThreadTrace& thread : trace.threads)
    records += thread.records.size();
  // What is added for coroutines and frames is less than half as much again.
  writer_.expect(records + records / 2);
  Steps steps(trace);
  while (const std::optional<Step> step = steps.next()) {
    Thread& thread = threads_[step->thread];
    if (!thread.seen) thread.lane = writer_.new_lane();
    thread.seen = true;
    if (step->record.kind == Kind::kEntry) enter(thread, *step);
    if (step->record.kind == Kind::kExit) leave(thread, *step);
  }
  for (Thread& thread : threads_)
    settle(thread);
}

uint32_t ProcessEvents::lane_of(const Thread& thread) const {
  for (auto frame = thread.stack.rbegin(); frame != thread.stack.rend(); ++frame)
    if (frame->coroutine) return frame->coroutine->chain->lane;
  return thread.lane;
}

void ProcessEvents::settle(Thread& thread) {
  if (thread.left) coroutines_.wait(thread.left);
  thread.left = nullptr;
}

void ProcessEvents::enter(Thread& thread, const Step& step) {
  const Function& function = of(step);
  if (function.role == Role::kResumed) return resume(thread, step);
  const uint32_t lane = lane_of(thread);
  if (function.role == Role::kSent || function.role == Role::kReceived) {
    // Only coroutines pass frames on. If none is known to run here, one without sleds does, in the place of what suspended.
    if (thread.left && thread.left_at == thread.stack.size()) settle(thread);
    mark_frame(lane, step, function.role);
  } else {
    writer_.enter(lane, step.unix_ns, function.id);
  }
  if (!function.directives.empty()) sites_.apply(function.directives, step, lane, function.id, writer_);
  if (function.role == Role::kDestroyed) coroutines_.destroy(step.arguments[0], step.unix_ns);
  thread.stack.push_back({step.record.function, nullptr});
}

bool ProcessEvents::is_continuing(const Thread& thread) const {
  for (auto frame = thread.stack.rbegin(); frame != thread.stack.rend() && !frame->coroutine; ++frame)
    if (functions_[frame->function - 1].continues) return true;
  return false;
}

Coroutines::Place ProcessEvents::take_place(Thread& thread) const {
  Coroutines::Place place{.lane = lane_of(thread)};
  if (!thread.left) {
    place.begins_nothing = is_continuing(thread);
    return place;
  }
  const size_t below = thread.left_at;
  if (below == thread.stack.size()) {
    place.outer = std::exchange(thread.left, nullptr);
  } else if (below == 0 || !thread.stack[below - 1].coroutine) {
    // Where a coroutine runs below it, that one has resumed it, and may call functions again since it suspended.
    place.spawner = thread.left;
  }
  return place;
}

void ProcessEvents::resume(Thread& thread, const Step& step) {
  const Coroutines::Place place = take_place(thread);
  const Coroutines::Shared coroutine =
      coroutines_.resume(step.arguments[0], of(step).id, place, step.unix_ns);
  writer_.enter(place.lane, step.unix_ns, elsewhere_);
  thread.stack.push_back({step.record.function, coroutine});
}

void ProcessEvents::leave(Thread& thread, const Step& step) {
  auto frame = thread.stack.rbegin();
  while (frame != thread.stack.rend() && frame->function != step.record.function)
    ++frame;
  // It was entered before it was traced: so the thread is further out than all that is known of it.
  if (frame == thread.stack.rend()) return settle(thread);
  const size_t depth = static_cast<size_t>(thread.stack.rend() - frame) - 1;
  for (; thread.stack.size() > depth;) {
    const Frame ended = std::move(thread.stack.back());
    thread.stack.pop_back();
    if (ended.coroutine) {
      suspend(thread, ended.coroutine, step.unix_ns);
      continue;
    }
    const Function& function = functions_[ended.function - 1];
    if (function.role != Role::kSent && function.role != Role::kReceived)
      writer_.leave(lane_of(thread), step.unix_ns, function.id, (step.record.flags & kUnwound) != 0);
    // Frames above it ended without a record of their own, so what was returned is none of theirs.
    if (!function.directives.empty() && thread.stack.size() == depth)
      sites_.apply(function.directives, step, lane_of(thread), function.id, writer_);
    if (thread.left && thread.stack.size() < thread.left_at) settle(thread);
  }
}

void ProcessEvents::suspend(Thread& thread, const Coroutines::Shared& coroutine, int64_t at_ns) {
  settle(thread);
  coroutine->runs = false;
  coroutine->left_ns = at_ns;
  thread.left = coroutine;
  thread.left_at = thread.stack.size();
  writer_.leave(lane_of(thread), at_ns, elsewhere_);
  for (auto frame = thread.stack.rbegin(); frame != thread.stack.rend(); ++frame)
    if (frame->coroutine) return coroutines_.go_on(*frame->coroutine, at_ns);
}

void ProcessEvents::mark_frame(uint32_t lane, const Step& step, Role role) {
  const auto [channel, number, bytes, call, word, unused, returned] = step.arguments;
  if (channel == 0) return;  // the connection was there before both ends knew its number
  const bool asks = (word & rpc::kFlagRequest) != 0;
  const std::string_view method = rpc::method_name(static_cast<rpc::Method>(word >> 16));
  const flow::FunctionId what = writer_.function(fmt::format("{}{}", method, asks ? "" : " (goes on)"));
  const bool sends = role == Role::kSent;
  writer_.frame({.time_ns = step.unix_ns,
                 .thread = lane,
                 .function = what,
                 .kind = sends ? flow::Kind::kSend : flow::Kind::kRecv,
                 .offset = static_cast<int64_t>(number),
                 .size = bytes},
                channel);
  const uint64_t of_connection = mix_bits(channel >> 1) ^ call;
  // Who asks begins the call; so does who is asked by somebody that is not traced. An answer belongs to what it answers.
  writer_.join(lane, step.unix_ns, sends && asks ? flow::Kind::kBegin : flow::Kind::kUse, Join::kCall,
               of_connection, what);
}

}  // namespace kintsugi::tracing

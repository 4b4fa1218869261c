#include "tracing/anomaly/stack_walk.h"

namespace kintsugi::anomaly {

namespace {
/// A frame is searched for so far down the stack: a garbage trace must not make each exit walk over a million frames.
constexpr size_t kMostSkipped = 4 * kMostDepth;
}  // namespace

TraceNames::TraceNames(const flow::Trace& trace, CallPaths& paths) : preempted_(paths.name(kPreempted)) {
  for (const std::string& function : trace.functions())
    functions_.push_back(paths.name(function));
  for (const flow::Process& process : trace.processes())
    binaries_.push_back(paths.binary(paths.name(process.binary)));
}

PathId StackWalk::step(const flow::Event& event) {
  using flow::Kind;
  switch (event.kind) {
    case Kind::kEntry:
      frames_.push_back({event.function, paths_.call(now(), names_.of(event.function), event.site)});
      break;
    case Kind::kPreempted: frames_.push_back({flow::kNone, paths_.call(now(), names_.preempted(), 0)}); break;
    case Kind::kExit:
    case Kind::kUnwound: leave(event.function); break;
    case Kind::kResumed: leave(flow::kNone); break;
    default: break;
  }
  return now();
}

void StackWalk::leave(flow::FunctionId function) {
  for (size_t i = frames_.size(), least = i - std::min(i, kMostSkipped); i-- > least;) {
    if (frames_[i].function != function) continue;
    frames_.resize(i);
    return;
  }
}

}  // namespace kintsugi::anomaly

/// Follows the stack of one thread through its events.
#pragma once

#include "tracing/anomaly/call_paths.h"
#include "tracing/flow/trace.h"

namespace kintsugi::anomaly {

/// The frame that holds the time in which the kernel had taken the processor away.
inline constexpr std::string_view kPreempted = "(preempted)";

/// Names of a trace in the forest of call paths. Keep one for each trace.
class TraceNames {
 public:
  TraceNames(const flow::Trace& trace, CallPaths& paths);
  NameId of(flow::FunctionId function) const { return functions_[function]; }
  PathId binary_of(uint32_t process) const { return binaries_[process]; }
  NameId preempted() const { return preempted_; }

 private:
  std::vector<NameId> functions_;
  std::vector<PathId> binaries_;
  NameId preempted_;
};

/// A trace that begins in the middle has exits without entries: they change nothing. An exit that skips frames (an
/// exception, lost records) leaves them, too.
class StackWalk {
 public:
  StackWalk(CallPaths& paths, const TraceNames& names, uint32_t process)
      : paths_(paths), names_(names), bottom_(names.binary_of(process)) {}

  /// The path that is running after `event`.
  PathId step(const flow::Event& event);
  /// The path that is running; that of the binary alone if no function is open.
  PathId now() const { return frames_.empty() ? bottom_ : frames_.back().path; }
  bool open() const { return !frames_.empty(); }

 private:
  struct Frame {
    flow::FunctionId function;  ///< kNone: preempted
    PathId path;
  };
  void leave(flow::FunctionId function);

  CallPaths& paths_;
  const TraceNames& names_;
  PathId bottom_;
  std::vector<Frame> frames_;
};

}  // namespace kintsugi::anomaly

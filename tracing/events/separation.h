/// From traces of processes to flows: what belongs to which request.
#pragma once

#include <span>

#include "tracing/events/event_writer.h"
#include "tracing/events/named_trace.h"
#include "tracing/flow/flows.h"

namespace kintsugi::tracing {

flow::Recorded events_of(std::span<const NamedTrace> traces);

struct Separated {
  flow::Trace trace;
  flow::Flows flows;
};

/// The program whose processes are commands. What a command asks servers for belongs to its flow, the largest of its process.
inline constexpr const char* kCommand = "kintsugi";
/// The program of mounts. Each request of the kernel is a flow of its own.
inline constexpr const char* kMount = "kintsugi-mount";
/// It asks servers, and none of them is its own.
bool is_client(const flow::Process& process);

/// Flows as if commands and mounts had not been traced: each call of theirs is one, with all that servers did for it.
flow::Flows flows_by_call(const flow::Trace& trace);

/// Separates by what is known of our daemons: frames, coroutines, event loops. Traces are taken one after the other, so that whoever
/// reads them has one in memory at a time.
class Separation {
 public:
  void add(const NamedTrace& trace);
  /// Errors: those of flow::Trace::from. REQUIRES: it is called once.
  Result<Separated> finish();

 private:
  EventWriter writer_;
};

}  // namespace kintsugi::tracing

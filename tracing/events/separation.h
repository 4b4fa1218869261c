/// From traces of processes to flows: what belongs to which request.
#pragma once

#include <string>
#include <vector>

#include "tracing/anomaly/waiting.h"
#include "tracing/events/directive_sites.h"
#include "tracing/events/event_writer.h"
#include "tracing/events/named_trace.h"
#include "tracing/flow/flows.h"

namespace kintsugi::tracing {

/// By what flows are told apart beside what is always followed.
struct SeparationSettings {
  flow::Directives directives = shipped_directives();
  /// No directives at all: a message goes on with its sender's flow, and everything else with what its thread, or its chain of
  /// coroutines, did before.
  bool rules_only = false;
};

struct Separated {
  flow::Trace trace;
  flow::Flows flows;
  SeparationSettings settings;
  /// A sentence for each directive that could not be followed, with its line.
  std::vector<std::string> remarks;
};

/// The program whose processes are commands. What a command asks servers for belongs to its flow, the largest of its process.
inline constexpr const char* kCommand = "kintsugi";
/// The program of mounts. Each request of the kernel is a flow of its own.
inline constexpr const char* kMount = "kintsugi-mount";
/// It asks servers, and none of them is its own.
bool is_client(const flow::Process& process);

/// Flows as if commands and mounts had not been traced: each call of theirs is one, with all that servers did for it.
flow::Flows flows_by_call(const flow::Trace& trace, const SeparationSettings& settings);

/// Where threads and coroutines wait, and where for somebody else's message.
anomaly::WaitNames wait_names(const SeparationSettings& settings);

/// Separates by what is always followed, frames and coroutines, and by directives. Traces are taken one after the other, so that
/// whoever reads them has one in memory at a time.
class Separation {
 public:
  explicit Separation(SeparationSettings settings = {});
  void add(const NamedTrace& trace);
  /// Errors: those of flow::Trace::from. REQUIRES: it is called once.
  Result<Separated> finish();

 private:
  const bool rules_only_;
  DirectiveSites sites_;
  EventWriter writer_;
};

}  // namespace kintsugi::tracing

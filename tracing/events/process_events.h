/// Turns the records of one process into events.
#pragma once

#include <span>
#include <vector>

#include "tracing/events/coroutines.h"
#include "tracing/events/directive_sites.h"
#include "tracing/events/named_trace.h"
#include "tracing/events/steps.h"

namespace kintsugi::tracing {

class ProcessEvents {
 public:
  /// All outlive this. `writer` has the attributes of `sites`.
  ProcessEvents(const NamedTrace& named, DirectiveSites& sites, EventWriter& writer);
  void run();

 private:
  enum class Role : uint8_t { kPlain, kResumed, kDestroyed, kSent, kReceived };
  struct Function {
    Role role{};
    flow::FunctionId id = flow::kNone;  ///< id of a coroutine, without the name of its part
    bool continues = false;             ///< it is kContinues
    std::span<const uint32_t> directives;
  };
  struct Frame {
    uint32_t function = 0;
    Coroutines::Shared coroutine;  ///< null: it is a plain function
  };
  struct Thread {
    uint32_t lane = 0;
    bool seen = false;
    std::vector<Frame> stack;
    /// A coroutine that suspended when so many frames were open, and nothing has shown yet what comes in its place.
    Coroutines::Shared left;
    size_t left_at = 0;
  };

  static Role role_of(std::string& name);
  const Function& of(const Step& step) const { return functions_[step.record.function - 1]; }
  uint32_t lane_of(const Thread& thread) const;
  /// Where a coroutine continues now. One that continues in the place of another one takes that from the thread.
  Coroutines::Place take_place(Thread& thread) const;
  /// Some function has a suspended coroutine continue, and none runs above it.
  bool is_continuing(const Thread& thread) const;
  void enter(Thread& thread, const Step& step);
  void leave(Thread& thread, const Step& step);
  void resume(Thread& thread, const Step& step);
  void suspend(Thread& thread, const Coroutines::Shared& coroutine, int64_t at_ns);
  void settle(Thread& thread);
  void mark_frame(uint32_t lane, const Step& step, Role role);

  const NamedTrace& named_;
  DirectiveSites& sites_;
  EventWriter& writer_;
  Coroutines coroutines_;
  const flow::FunctionId elsewhere_;
  std::vector<Function> functions_;  ///< by function - 1
  std::vector<Thread> threads_;
};

}  // namespace kintsugi::tracing

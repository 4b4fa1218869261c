/// Writes events of several processes (flow/event.h), with the names that they refer to.
#pragma once

#include <map>
#include <span>
#include <string>

#include "tracing/flow/directives.h"
#include "tracing/flow/event.h"

namespace kintsugi::tracing {

/// Attributes of what is always followed. Those of a file of directives come behind them.
enum class Join : uint32_t {
  kCoroutine,  ///< what one coroutine does belongs to the flow in which it began, wherever it continues
  kSpawned,    ///< a new chain of coroutines, and what began it
  kCall,       ///< frames of one call on a connection
  kCount
};

class EventWriter {
 public:
  explicit EventWriter(std::span<const flow::Attribute> of_directives = {});

  /// So many events will be added soon.
  void expect(size_t events) { recorded_.events.reserve(recorded_.events.size() + events); }
  /// Events that are added from now on are of this process.
  void begin_process(flow::Process process);
  /// A thread of control of that process: a thread, or coroutines that wait for one another.
  uint32_t new_lane() { return lanes_++; }
  flow::FunctionId function(const std::string& name);

  void enter(uint32_t lane, int64_t at_ns, flow::FunctionId function) {
    add({.time_ns = at_ns, .thread = lane, .function = function, .kind = flow::Kind::kEntry});
  }
  void leave(uint32_t lane, int64_t at_ns, flow::FunctionId function, bool unwound = false) {
    const flow::Kind kind = unwound ? flow::Kind::kUnwound : flow::Kind::kExit;
    add({.time_ns = at_ns, .thread = lane, .function = function, .kind = kind});
  }
  /// It labels the event before it if that is of the same function (flow/directives.h).
  void join(uint32_t lane, int64_t at_ns, flow::Kind directive, Join attribute, uint64_t value,
            flow::FunctionId function = flow::kNone);
  /// The same for a directive of the file whose attributes the constructor was given.
  void join_by_directive(uint32_t lane, int64_t at_ns, const flow::Directive& directive, uint64_t value,
                         flow::FunctionId function);
  /// Of the frame, `event` has the lane, the time, the kind, what it is, its number in the channel and its bytes. Processes call a
  /// direction of a connection the same.
  void frame(flow::Event event, uint64_t channel);

  flow::Recorded take() { return std::move(recorded_); }

 private:
  struct Joined {
    flow::Kind directive;
    uint32_t attribute;
    uint64_t value;
  };
  flow::Event& add(flow::Event event);
  void join(uint32_t lane, int64_t at_ns, const Joined& joined, flow::FunctionId function);

  flow::Recorded recorded_;
  std::map<std::string, flow::FunctionId> functions_;
  std::map<uint64_t, uint32_t> channels_;
  uint32_t lanes_ = 0;
};

}  // namespace kintsugi::tracing

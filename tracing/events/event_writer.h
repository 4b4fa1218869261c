/// Writes events of several processes (flow/event.h), with the names that they refer to.
#pragma once

#include <map>
#include <string>

#include "tracing/flow/event.h"

namespace kintsugi::tracing {

/// Attributes of the directives that are made here.
enum class Join : uint32_t {
  kCoroutine,  ///< what one coroutine does belongs to the flow in which it began, wherever it continues
  kSpawned,    ///< a new chain of coroutines, and what began it
  kPosted,     ///< what an event loop was given to do, and does
  kCall,       ///< frames of one call on a connection
  kCount
};

class EventWriter {
 public:
  EventWriter();

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
  /// Of the frame, `event` has the lane, the time, the kind, what it is, its number in the channel and its bytes. Processes call a
  /// direction of a connection the same.
  void frame(flow::Event event, uint64_t channel);

  flow::Recorded take() { return std::move(recorded_); }

 private:
  flow::Event& add(flow::Event event);

  flow::Recorded recorded_;
  std::map<std::string, flow::FunctionId> functions_;
  std::map<uint64_t, uint32_t> channels_;
  uint32_t lanes_ = 0;
};

}  // namespace kintsugi::tracing

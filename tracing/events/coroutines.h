/// Follows the coroutines of one process, so that what a request does is one thread of control whatever thread it runs
/// on.
///
/// Coroutines that wait for one another form a chain: the innermost one runs or waits for something else. A chain is a
/// lane of its own, in which an inner coroutine stands as a function that the outer one called. While the innermost
/// waits the lane is in "(waits)". A thread that runs a coroutine is in "(elsewhere)" meanwhile, which belongs to no
/// flow.
///
/// That an inner coroutine begins is seen by what a thread does: one coroutine suspends and another one continues in
/// its place, without a return to the event loop. Whoever suspends may have something begun first: what an event loop calls
/// then, in the place of the coroutine, it calls for that one (asio runs the initiation of an operation so). A coroutine that
/// such a function spawns is a chain of its own, in the flow of the one that suspended.
///
/// A coroutine that had begun before it was recorded is no part of what happened to continue it: it has a flow of its own.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "tracing/events/event_writer.h"

namespace kintsugi::tracing {

inline constexpr const char* kWaits = "(waits)";
inline constexpr const char* kElsewhere = "(elsewhere)";

class Coroutines {
 public:
  explicit Coroutines(EventWriter& writer);

  struct Chain;
  struct Coroutine {
    uint64_t number = 0;  ///< no other one of the process has it
    flow::FunctionId function = flow::kNone;
    std::shared_ptr<Chain> chain;
    bool runs = false;
    int64_t left_ns = 0;  ///< when the latest thread left it, unless it runs
  };
  /// Coroutines, the outermost first.
  struct Chain {
    uint32_t lane = 0;
    std::vector<Coroutine*> stack;  ///< they are there until they are destroyed
    bool waits = false;
  };
  using Shared = std::shared_ptr<Coroutine>;

  /// Where a thread is when a coroutine continues on it.
  struct Place {
    uint32_t lane = 0;       ///< the lane that the thread was in
    Shared outer = nullptr;  ///< the coroutine that suspended just before in this place; null: there is none
    /// The coroutine that has suspended, and for which the thread does what is done here; null: there is none.
    Shared spawner = nullptr;
    bool begins_nothing = false;  ///< a coroutine that is first seen here had begun before it was recorded
  };
  /// A thread continues with the coroutine whose frame lies at `frame`.
  Shared resume(uint64_t frame, flow::FunctionId function, const Place& place, int64_t at_ns);
  /// Its thread left it, and went back to the event loop: it waits since then. Another thread may have continued it meanwhile.
  void wait(const Shared& coroutine);
  /// The frame is destroyed.
  void destroy(uint64_t frame, int64_t at_ns);
  /// What follows in its lane belongs to the flow in which the coroutine began.
  void go_on(const Coroutine& coroutine, int64_t at_ns, flow::FunctionId labelled = flow::kNone);

 private:
  Shared begin(flow::FunctionId function, const Place& place, int64_t at_ns);
  /// Returns the lane in which a chain of its own is spawned.
  uint32_t spawning_lane(const Place& place, int64_t at_ns);
  void end_waiting(Chain& chain, int64_t at_ns);
  void leave_down_to(Chain& chain, size_t depth, int64_t at_ns);

  EventWriter& writer_;
  const flow::FunctionId waits_;
  std::unordered_map<uint64_t, Shared> at_;  ///< by the address of their frames
  uint64_t last_number_ = 0;
};

}  // namespace kintsugi::tracing

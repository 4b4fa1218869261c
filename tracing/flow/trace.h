/// A recorded execution whose references were checked, with its threads. Immutable.
#pragma once

#include <span>

#include "common/base/status.h"
#include "tracing/flow/event.h"

namespace kintsugi::flow {

struct Thread {
  uint32_t process = 0;
  uint32_t number = 0;              ///< as in Event::thread
  std::span<const EventId> events;  ///< in program order; never empty
};

class Trace {
 public:
  /// Errors: kLimitExceeded (more than kMostEvents or kMostNames), kCorrupt (an event names what there is not, its
  /// time is not between 1897 and 2116, or a message lies beyond 2^61 bytes).
  static Result<Trace> from(Recorded recorded);

  Trace(const Trace&) = delete;  // Threads point into the trace.
  Trace& operator=(const Trace&) = delete;
  Trace(Trace&&) = default;
  Trace& operator=(Trace&&) = default;

  const std::vector<Process>& processes() const { return recorded_.processes; }
  const std::vector<std::string>& functions() const { return recorded_.functions; }
  const std::vector<Channel>& channels() const { return recorded_.channels; }
  const std::vector<Attribute>& attributes() const { return recorded_.attributes; }
  const std::vector<Event>& events() const { return recorded_.events; }
  const Event& event(EventId id) const { return recorded_.events[id]; }
  size_t size() const { return recorded_.events.size(); }

  /// By process, then by number.
  const std::vector<Thread>& threads() const { return threads_; }
  /// The event before it in its thread; kNone of the first one.
  EventId previous(EventId id) const { return previous_[id]; }
  /// Its name, or "?" of kNone.
  std::string_view name_of(FunctionId function) const;

 private:
  explicit Trace(Recorded recorded) : recorded_(std::move(recorded)) {}
  void find_threads();

  Recorded recorded_;
  std::vector<EventId> by_thread_;  ///< all events, thread after thread
  std::vector<Thread> threads_;
  std::vector<EventId> previous_;
};

}  // namespace kintsugi::flow

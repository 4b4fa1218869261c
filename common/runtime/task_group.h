/// Owns coroutines: each one spawned belongs to a group that can ask it to stop and wait until it ended.
#pragma once

#include <functional>
#include <list>
#include <memory>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/runtime.h"

namespace kintsugi::runtime {

/// Single-threaded, like everything on a Runtime's executor. REQUIRES: join() has returned before it
/// is destroyed (asserted).
///
/// Stopping is cooperative: `request_stop` runs every stop callback once (close a connection, a listener, a
/// queue) and wakes every `sleep_*` of this group; coroutines then see errors or `stopping()` and leave.
class TaskGroup {
 public:
  TaskGroup(asio::any_io_executor executor, Clock& clock);
  explicit TaskGroup(const Runtime& runtime) : TaskGroup(runtime.executor, runtime.clock) {}
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  /// Starts `task` (posted, never run inside this call). An exception that leaves it is a bug and aborts.
  /// After request_stop the task still starts, and sees stopping().
  void spawn(asio::awaitable<void> task);

  bool stopping() const;
  void request_stop();
  /// Waits until every spawned task ended. More may be spawned meanwhile. Only one joiner.
  asio::awaitable<void> join();
  /// Requests a stop and waits for it.
  asio::awaitable<void> stop();
  size_t running() const;

  /// True when the time came, false (at once) when the group is stopping.
  asio::awaitable<bool> sleep_until(TimePoint due);
  asio::awaitable<bool> sleep_for(Duration duration);

  /// Runs `callback` at request_stop (at once if stopping already), unless the handle dies first.
  class [[nodiscard]] StopCallback {
   public:
    StopCallback() = default;
    StopCallback(StopCallback&&) noexcept = default;
    StopCallback& operator=(StopCallback&&) noexcept;
    ~StopCallback();

   private:
    friend class TaskGroup;
    struct Entry;
    std::shared_ptr<Entry> entry_;
  };
  StopCallback on_stop(std::function<void()> callback);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace kintsugi::runtime

/// Waiting for something another coroutine of the same executor does: Event (a condition to re-check),
/// Channel (a bounded queue) and Semaphore (admission). Deterministic: waiters wake in the order they came.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <optional>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "common/base/assert.h"
#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/runtime.h"

namespace kintsugi::runtime {

/// `notify_*` wakes waiters (posted, never run inside the call). No state is kept: re-check the condition in
/// a loop. REQUIRES: nobody waits when it is destroyed (asserted).
class Event {
 public:
  Event(asio::any_io_executor executor, Clock& clock);
  explicit Event(const Runtime& runtime) : Event(runtime.executor, runtime.clock) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Returns true when notified, false at `deadline`.
  asio::awaitable<bool> wait_until(TimePoint deadline);
  asio::awaitable<void> wait();
  void notify_one();
  void notify_all();
  size_t waiting() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Bounded FIFO between coroutines. After close(), push fails with kCancelled; pop drains what is left, then
/// fails with the close status.
template <class T>
class Channel {
 public:
  Channel(const Runtime& runtime, size_t capacity) : Channel(runtime.executor, runtime.clock, capacity) {}
  Channel(asio::any_io_executor executor, Clock& clock, size_t capacity)
      : capacity_(capacity), readable_(executor, clock), writable_(executor, clock) {}

  asio::awaitable<Status> push(T value) {
    while (!closed_ && items_.size() >= capacity_)
      co_await writable_.wait();
    if (closed_) co_return Status{Code::kCancelled, "channel closed"};
    items_.push_back(std::move(value));
    readable_.notify_one();
    co_return Status{};
  }

  asio::awaitable<Result<T>> pop() {
    while (items_.empty() && !closed_)
      co_await readable_.wait();
    if (items_.empty()) co_return closed_->ok() ? Status{Code::kCancelled, "channel closed"} : *closed_;
    T value = std::move(items_.front());
    items_.pop_front();
    writable_.notify_one();
    co_return value;
  }

  /// `why` is what pop reports once the channel is empty; the first close wins.
  void close(Status why = {}) {
    if (!closed_) closed_ = std::move(why);
    readable_.notify_all();
    writable_.notify_all();
  }

  size_t size() const { return items_.size(); }

 private:
  size_t capacity_;
  std::deque<T> items_;
  std::optional<Status> closed_;
  Event readable_, writable_;
};

/// Counted slots, granted first come, first served.
class Semaphore {
 public:
  Semaphore(const Runtime& runtime, size_t slots) : free_(slots), freed_(runtime) {}

  /// kDeadlineExceeded when no slot came free in time.
  asio::awaitable<Status> acquire(TimePoint deadline);
  bool try_acquire();
  void release();
  size_t free() const { return free_; }

 private:
  size_t free_;
  Event freed_;
};

}  // namespace kintsugi::runtime

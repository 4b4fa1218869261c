/// An event loop whose clock jumps from one due time to the next, so that tests of waiting do not wait.
#pragma once

#include <map>
#include <optional>
#include <utility>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "common/runtime/clock.h"

namespace kintsugi::runtime::testing {

class VirtualClock final : public Clock {
 public:
  TimePoint now() const override { return now_; }
  WallTime wall_now() const override { return WallTime(now_.time_since_epoch()); }
  TimerId call_at(TimePoint due, std::function<void()> callback) override {
    TimerId id{++last_id_};
    timers_[{due, id}] = std::move(callback);
    return id;
  }
  bool cancel(TimerId timer) override {
    return std::erase_if(timers_, [timer](const auto& entry) { return entry.first.second == timer; }) > 0;
  }

  /// Jumps to the earliest timer and runs it; false when there is none.
  bool fire_next() {
    if (timers_.empty()) return false;
    auto node = timers_.extract(timers_.begin());
    now_ = std::max(now_, node.key().first);
    node.mapped()();
    return true;
  }
  size_t pending() const { return timers_.size(); }

 private:
  TimePoint now_{1h};
  uint64_t last_id_ = 0;
  std::map<std::pair<TimePoint, TimerId>, std::function<void()>> timers_;
};

class VirtualLoop {
 public:
  /// Runs `task` to its end; fails the test when everything stands still before that.
  void run(asio::awaitable<void> task) {
    bool done = false;
    asio::co_spawn(io, std::move(task), [&](std::exception_ptr error) {
      done = true;
      if (error) std::rethrow_exception(error);
    });
    do {
      io.restart();
      io.poll();
    } while (!done && clock.fire_next());
    ASSERT_TRUE(done) << "the coroutine waits for something that never comes";
  }

  asio::io_context io;
  VirtualClock clock;
};

}  // namespace kintsugi::runtime::testing

/// An event loop whose turns are measured, with those that were long.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include "common/runtime/production/loop_turns.h"
#include "common/runtime/production/run.h"

namespace kintsugi::runtime {

inline void burn(Duration processor_time) {
  timespec used{};
  const auto now = [&] {
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
  };
  for (const auto begin = now(); now() - begin < processor_time;) {
  }
}

struct LongTurn {
  std::string ran;
  Duration took;
};

class LoopTurnsTest : public ::testing::Test {
 protected:
  LoopTurnsTest() {
    turns_.on_long = [this](std::string_view ran, Duration took) {
      long_.push_back({std::string(ran), took});
    };
  }
  /// Runs each of these as a handler of its own, one after the other.
  void run(const std::vector<std::function<void()>>& handlers) { run_on(production_, run_all(handlers)); }
  uint64_t turns() const {
    uint64_t all = 0;
    for (const uint64_t count : turns_.totals().turns)
      all += count;
    return all;
  }

  ProductionRuntime production_;
  LoopTurns& turns_ = production_.measure_turns();
  std::vector<LongTurn> long_;

 private:
  asio::awaitable<void> run_all(const std::vector<std::function<void()>>& handlers) {
    for (const auto& handler : handlers) {
      co_await asio::post(production_.runtime().executor, asio::use_awaitable);
      handler();
    }
  }
};

}  // namespace kintsugi::runtime

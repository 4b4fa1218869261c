#include "common/runtime/production/blocking_thread.h"

#include <array>
#include <atomic>
#include <memory>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "common/runtime/production/run.h"
#include "common/runtime/task_group.h"

namespace kintsugi::runtime {
namespace {

TEST(BlockingThread, ACallThatNeverReturnsKeepsNobodyFromEnding) {
  ProductionRuntime production;
  auto pipe_ends = std::make_shared<std::array<int, 2>>();
  ASSERT_EQ(pipe2(pipe_ends->data(), O_CLOEXEC), 0);
  std::atomic<bool> begun = false;
  auto body = [&]() -> asio::awaitable<void> {
    BlockingThread stuck(production.io()), other(production.io());
    TaskGroup tasks(production.runtime());
    tasks.spawn([](BlockingThread& thread, std::shared_ptr<std::array<int, 2>> ends,
                   std::atomic<bool>& begun) -> asio::awaitable<void> {
      begun = true;
      (void)co_await thread.run([ends] {
        char byte;
        return static_cast<int>(::read((*ends)[0], &byte, 1));
      });
    }(stuck, pipe_ends, begun));
    const int answer = co_await other.run([] { return 42; });
    EXPECT_EQ(answer, 42);
    for (int i = 0; i < 1000 && !begun; ++i)
      co_await other.run([] { return 0; });
    EXPECT_TRUE(begun);
    EXPECT_EQ(::write((*pipe_ends)[1], "x", 1), 1);  // so that the task, which somebody must join, ends
    co_await tasks.join();
    // This one is never answered.
    auto forgotten = [](BlockingThread& thread,
                        std::shared_ptr<std::array<int, 2>> ends) -> asio::awaitable<void> {
      (void)co_await thread.run([ends] {
        char byte;
        return static_cast<int>(::read((*ends)[0], &byte, 1));
      });
    };
    asio::co_spawn(production.io(), forgotten(stuck, pipe_ends), asio::detached);
    EXPECT_EQ(co_await other.run([] { return 7; }), 7);
    stuck.shut_down();
    EXPECT_EQ(co_await stuck.run([] { return 1; }), -ECANCELED);
  };
  run_on(production, body());
  EXPECT_EQ(::write((*pipe_ends)[1], "x", 1), 1);
}

}  // namespace
}  // namespace kintsugi::runtime

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "common/runtime/event.h"
#include "common/runtime/task_group.h"
#include "tests/common/runtime_virtual_loop.h"

namespace kintsugi::runtime {
namespace {

struct TaskGroupTest : ::testing::Test {
  testing::VirtualLoop loop;
  TaskGroup tasks{loop.io.get_executor(), loop.clock};
  std::vector<std::string> events;

  asio::awaitable<void> sleeper(std::string name, Duration duration) {
    events.push_back(name + " starts");
    bool time_came = co_await tasks.sleep_for(duration);
    events.push_back(name + (time_came ? " wakes" : " is stopped"));
  }
  asio::awaitable<void> parent(int generations) {
    co_await tasks.sleep_for(1ms);
    if (generations > 0) tasks.spawn(parent(generations - 1));
    events.push_back("parent " + std::to_string(generations));
  }
};

TEST_F(TaskGroupTest, StartsTasksInOrderAndNeverInsideSpawn) {
  auto body = [&]() -> asio::awaitable<void> {
    tasks.spawn(sleeper("a", 2ms));
    tasks.spawn(sleeper("b", 1ms));
    EXPECT_TRUE(events.empty());
    EXPECT_EQ(tasks.running(), 2u);
    co_await tasks.join();
    EXPECT_EQ(events, std::vector<std::string>({"a starts", "b starts", "b wakes", "a wakes"}));
    EXPECT_EQ(tasks.running(), 0u);
  };
  loop.run(body());
}

TEST_F(TaskGroupTest, StopWakesSleepersAtOnce) {
  auto body = [&]() -> asio::awaitable<void> {
    TimePoint start = loop.clock.now();
    tasks.spawn(sleeper("a", 1h));
    co_await tasks.sleep_for(1ms);
    tasks.request_stop();
    co_await tasks.join();
    EXPECT_EQ(events.back(), "a is stopped");
    EXPECT_EQ(loop.clock.now(), start + 1ms);
    EXPECT_EQ(loop.clock.pending(), 0u);
  };
  loop.run(body());
}

TEST_F(TaskGroupTest, TasksSpawnedAfterStopStillRunAndSeeIt) {
  auto body = [&]() -> asio::awaitable<void> {
    tasks.request_stop();
    EXPECT_TRUE(tasks.stopping());
    tasks.spawn(sleeper("late", 1h));
    co_await tasks.join();
    EXPECT_EQ(events, std::vector<std::string>({"late starts", "late is stopped"}));
  };
  loop.run(body());
}

TEST_F(TaskGroupTest, JoinWaitsForTasksThatTasksSpawn) {
  auto body = [&]() -> asio::awaitable<void> {
    tasks.spawn(parent(3));
    co_await tasks.join();
    EXPECT_EQ(events.size(), 4u);
    EXPECT_EQ(events.back(), "parent 0");
  };
  loop.run(body());
}

TEST_F(TaskGroupTest, SleepsForeverWithoutOverflow) {
  auto body = [&]() -> asio::awaitable<void> {
    tasks.spawn(sleeper("a", Duration::max()));
    co_await tasks.sleep_for(1ms);
    EXPECT_EQ(events.size(), 1u);
    tasks.request_stop();
    co_await tasks.join();
  };
  loop.run(body());
}

TEST_F(TaskGroupTest, RunsStopCallbacksOnceInOrderUnlessTheirHandleDied) {
  auto first = tasks.on_stop([&] { events.push_back("first"); });
  {
    auto dead = tasks.on_stop([&] { events.push_back("dead"); });
  }
  auto second = tasks.on_stop([&] { events.push_back("second"); });
  auto moved = std::move(first);
  first = {};
  tasks.request_stop();
  tasks.request_stop();
  EXPECT_EQ(events, std::vector<std::string>({"first", "second"}));
  auto late = tasks.on_stop([&] { events.push_back("late"); });
  EXPECT_EQ(events.back(), "late");
}

TEST_F(TaskGroupTest, AStopCallbackMayDropAnother) {
  TaskGroup::StopCallback victim;
  auto killer = tasks.on_stop([&] { victim = {}; });
  victim = tasks.on_stop([&] { events.push_back("victim"); });
  tasks.request_stop();
  EXPECT_TRUE(events.empty());
}

asio::awaitable<void> fail() {
  throw std::runtime_error("a bug");
  co_return;
}

TEST(TaskGroupDeathTest, AbortsWhenAnExceptionLeavesATask) {
  auto run = [] {
    testing::VirtualLoop loop;
    TaskGroup tasks(loop.io.get_executor(), loop.clock);
    tasks.spawn(fail());
    loop.io.poll();
  };
  EXPECT_DEATH(run(), "a bug");
}

TEST(TaskGroupDeathTest, AbortsWhenItDiesWithTasksRunning) {
  auto run = [] {
    testing::VirtualLoop loop;
    TaskGroup tasks(loop.io.get_executor(), loop.clock);
    tasks.spawn(fail());
  };
  EXPECT_DEATH(run(), "assertion failed");
}

}  // namespace
}  // namespace kintsugi::runtime

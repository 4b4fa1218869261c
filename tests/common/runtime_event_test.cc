#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "common/runtime/event.h"
#include "common/runtime/production/production_runtime.h"
#include "common/runtime/task_group.h"
#include "tests/common/runtime_virtual_loop.h"

namespace kintsugi::runtime {
namespace {

struct EventFixture : ::testing::Test {
  testing::VirtualLoop loop;
  Event event{loop.io.get_executor(), loop.clock};
  TaskGroup tasks{loop.io.get_executor(), loop.clock};
  std::vector<int> woken;

  asio::awaitable<void> wait_for(int name, TimePoint deadline) {
    bool notified = co_await event.wait_until(deadline);
    woken.push_back(notified ? name : -name);
  }
  asio::awaitable<void> settle() { co_await tasks.sleep_for(1ns); }
};

struct EventTest : EventFixture {};

TEST_F(EventTest, WakesWaitersInTheOrderTheyCame) {
  auto body = [&]() -> asio::awaitable<void> {
    for (int name : {1, 2, 3})
      tasks.spawn(wait_for(name, TimePoint::max()));
    co_await settle();
    EXPECT_EQ(event.waiting(), 3u);
    event.notify_one();
    EXPECT_TRUE(woken.empty()) << "must not run inside the call";
    co_await settle();
    EXPECT_EQ(woken, std::vector<int>({1}));
    event.notify_all();
    co_await tasks.join();
    EXPECT_EQ(woken, std::vector<int>({1, 2, 3}));
  };
  loop.run(body());
}

TEST_F(EventTest, GivesUpAtTheDeadlineAndOnlyThen) {
  auto body = [&]() -> asio::awaitable<void> {
    TimePoint start = loop.clock.now();
    tasks.spawn(wait_for(1, start + 20ms));
    tasks.spawn(wait_for(2, start + 10ms));
    tasks.spawn(wait_for(3, TimePoint::max()));
    co_await tasks.sleep_until(start + 10ms);
    co_await settle();
    EXPECT_EQ(woken, std::vector<int>({-2}));
    co_await tasks.sleep_until(start + 30ms);
    EXPECT_EQ(woken, std::vector<int>({-2, -1}));
    event.notify_one();
    co_await tasks.join();
    EXPECT_EQ(woken, std::vector<int>({-2, -1, 3}));
  };
  loop.run(body());
}

TEST_F(EventTest, CancelsTheTimerOfANotifiedWaiter) {
  auto body = [&]() -> asio::awaitable<void> {
    tasks.spawn(wait_for(1, loop.clock.now() + 1h));
    co_await settle();
    event.notify_all();
    co_await tasks.join();
    EXPECT_EQ(loop.clock.pending(), 0u);
  };
  loop.run(body());
}

TEST_F(EventTest, KeepsNoStateForThoseWhoComeLater) {
  auto body = [&]() -> asio::awaitable<void> {
    event.notify_all();
    bool notified = co_await event.wait_until(loop.clock.now() + 1ms);
    EXPECT_FALSE(notified);
  };
  loop.run(body());
}

struct ChannelTest : EventFixture {
  Channel<std::unique_ptr<int>> channel{loop.io.get_executor(), loop.clock, 2};
  Status producer_status;

  asio::awaitable<void> produce(int count) {
    for (int i = 0; i < count; ++i) {
      auto value = std::make_unique<int>(i);
      producer_status = co_await channel.push(std::move(value));
      if (!producer_status.ok()) co_return;
    }
  }
};

TEST_F(ChannelTest, HoldsBackAProducerThatIsAheadByItsCapacity) {
  auto body = [&]() -> asio::awaitable<void> {
    tasks.spawn(produce(5));
    co_await settle();
    EXPECT_EQ(channel.size(), 2u);
    for (int i = 0; i < 5; ++i) {
      auto value = co_await channel.pop();
      EXPECT_TRUE(value && **value == i);
    }
    co_await tasks.join();
  };
  loop.run(body());
}

TEST_F(ChannelTest, DrainsWhatIsLeftAfterCloseAndThenTellsWhy) {
  auto body = [&]() -> asio::awaitable<void> {
    tasks.spawn(produce(5));
    co_await settle();
    channel.close(Status{Code::kCorrupt, "bad"});
    channel.close(Status{Code::kIoError, "too late to matter"});
    co_await tasks.join();
    EXPECT_EQ(producer_status.code(), Code::kCancelled);
    for (int i = 0; i < 2; ++i) {
      auto value = co_await channel.pop();
      EXPECT_TRUE(value && **value == i);
    }
    auto end = co_await channel.pop();
    EXPECT_EQ(end.error().code(), Code::kCorrupt);
  };
  loop.run(body());
}

struct SemaphoreTest : EventFixture {
  ProductionRuntime unused;  // a semaphore takes the whole seam, and needs its executor and clock
  Semaphore semaphore{Runtime{loop.io.get_executor(), loop.clock, unused.runtime().network,
                              unused.runtime().disk, unused.runtime().random},
                      1};

  asio::awaitable<void> take(int name, TimePoint deadline) {
    Status status = co_await semaphore.acquire(deadline);
    woken.push_back(status.ok() ? name : -name);
  }
};

TEST_F(SemaphoreTest, GrantsFirstComeFirstServedAndNobodyOvertakes) {
  auto body = [&]() -> asio::awaitable<void> {
    EXPECT_TRUE(semaphore.try_acquire());
    for (int name : {1, 2})
      tasks.spawn(take(name, TimePoint::max()));
    co_await settle();
    semaphore.release();
    EXPECT_FALSE(semaphore.try_acquire()) << "the slot belongs to the first waiter already";
    co_await settle();
    EXPECT_EQ(woken, std::vector<int>({1}));
    semaphore.release();
    co_await tasks.join();
    EXPECT_EQ(woken, std::vector<int>({1, 2}));
    EXPECT_EQ(semaphore.free(), 0u);
    semaphore.release();
    EXPECT_EQ(semaphore.free(), 1u);
  };
  loop.run(body());
}

TEST_F(SemaphoreTest, ForgetsAWaiterThatGaveUp) {
  auto body = [&]() -> asio::awaitable<void> {
    EXPECT_TRUE(semaphore.try_acquire());
    tasks.spawn(take(1, loop.clock.now() + 5ms));
    tasks.spawn(take(2, TimePoint::max()));
    co_await tasks.sleep_for(10ms);
    EXPECT_EQ(woken, std::vector<int>({-1}));
    semaphore.release();
    co_await tasks.join();
    EXPECT_EQ(woken, std::vector<int>({-1, 2}));
  };
  loop.run(body());
}

}  // namespace
}  // namespace kintsugi::runtime

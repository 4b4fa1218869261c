#include <gtest/gtest.h>

#include "common/runtime/event.h"
#include "common/runtime/production/kernel_random.h"
#include "common/runtime/production/run.h"
#include "common/runtime/production/steady_clock.h"
#include "common/runtime/task_group.h"

namespace kintsugi::runtime {
namespace {

struct SteadyClockTest : ::testing::Test {
  asio::io_context io;
  SteadyClock clock{io};
  std::vector<int> fired;
  TimePoint start = clock.now();

  TimerId at(Duration offset, int name) {
    return clock.call_at(start + offset, [this, name] { fired.push_back(name); });
  }
};

TEST_F(SteadyClockTest, RunsTimersByDueTimeAndThenInTheOrderTheyWereMade) {
  at(3ms, 4);
  at(1ms, 1);
  at(2ms, 2);
  at(2ms, 3);
  EXPECT_TRUE(fired.empty());
  io.run();
  EXPECT_EQ(fired, std::vector<int>({1, 2, 3, 4}));
  EXPECT_GE(clock.now(), start + 3ms);
}

TEST_F(SteadyClockTest, NeverRunsACancelledTimer) {
  TimerId first = at(1ms, 1);
  TimerId second = at(2ms, 2);
  TimerId third = at(3ms, 3);
  EXPECT_TRUE(clock.cancel(first));
  EXPECT_FALSE(clock.cancel(first));
  EXPECT_FALSE(clock.cancel(TimerId::kNone));
  clock.call_at(start + 1ms, [this, second] { EXPECT_TRUE(clock.cancel(second)); });
  io.run();
  EXPECT_EQ(fired, std::vector<int>({3}));
  EXPECT_FALSE(clock.cancel(third)) << "it ran";
}

TEST_F(SteadyClockTest, DoesNotMistakeAReusedTimerForTheOneThatIsGone) {
  TimerId old = at(1ms, 1);
  clock.cancel(old);
  at(1ms, 2);
  EXPECT_FALSE(clock.cancel(old));
  io.run();
  EXPECT_EQ(fired, std::vector<int>({2}));
}

TEST_F(SteadyClockTest, ATimerThatIsAlwaysDueLetsOthersIn) {
  int rounds = 0;
  bool other_ran = false;
  std::function<void()> again = [&] {
    if (++rounds < 1000 && !other_ran) clock.call_at(start, again);
  };
  clock.call_at(start, again);
  asio::post(io, [&] { asio::post(io, [&] { other_ran = true; }); });
  io.run();
  EXPECT_TRUE(other_ran);
  EXPECT_LT(rounds, 1000);
}

TEST_F(SteadyClockTest, AgreesWithASortedListUnderRandomUse) {
  KernelRandom random;
  std::map<std::pair<TimePoint, int>, TimerId> expected;
  for (int name = 0; name < 5000; ++name) {
    Duration offset = std::chrono::microseconds(random.below(2000));
    expected[{start + offset, name}] = at(offset, name);
    if (random.below(2) == 0) {
      auto victim = std::next(expected.begin(), static_cast<int>(random.below(expected.size())));
      EXPECT_TRUE(clock.cancel(victim->second));
      expected.erase(victim);
    }
  }
  EXPECT_EQ(clock.pending(), expected.size());
  io.run();
  std::vector<int> order;
  for (const auto& [key, timer] : expected)
    order.push_back(key.second);
  EXPECT_EQ(fired, order);
}

TEST(KernelRandom, FillsEverythingAndDiffersBetweenObjects) {
  KernelRandom a, b;
  EXPECT_NE(a.next(), b.next());
  std::vector<std::byte> bytes(4096);
  a.fill(bytes);
  int zeros = static_cast<int>(std::count(bytes.begin(), bytes.end(), std::byte{0}));
  EXPECT_LT(zeros, 100);
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i)
    seen.insert(a.below(8));
  EXPECT_EQ(seen.size(), 8u);
}

asio::awaitable<int> answer() {
  co_return 42;
}
asio::awaitable<int> throwing() {
  throw std::runtime_error("no answer");
  co_return 0;
}

TEST(RunOn, ReturnsWhatTheCoroutineReturnsOnThisThread) {
  ProductionRuntime production;
  EXPECT_EQ(run_on(production, answer()), 42);
  EXPECT_EQ(run_on(production, answer()), 42);
  EXPECT_THROW(run_on(production, throwing()), std::runtime_error);
}

TEST(RunOn, LeavesTheWorkToTheThreadThatServesTheLoop) {
  ProductionRuntime production;
  LoopThread thread(production);
  EXPECT_EQ(run_on(production, answer()), 42);
  EXPECT_TRUE(production.is_running());
}

}  // namespace
}  // namespace kintsugi::runtime

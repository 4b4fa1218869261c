// The turns of an event loop: how much processor time it spends between two looks for events, and who took it.
#include "common/runtime/production/loop_turns.h"

#include <thread>
#include <vector>

#include <boost/asio/post.hpp>
#include <gtest/gtest.h>

#include "common/runtime/live_work.h"
#include "common/runtime/production/run.h"

namespace kintsugi::runtime {
namespace {

constexpr Site kSlow{"test.slow"}, kQuick{"test.quick"}, kOuter{"test.outer"};

void burn(Duration processor_time) {
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

TEST_F(LoopTurnsTest, AreMeasuredByTheProcessorTimeThatTheyTake) {
  run({[] { burn(30ms); }, [] { std::this_thread::sleep_for(50ms); }, [] { burn(3ms); }});
  ASSERT_EQ(long_.size(), 1u);
  EXPECT_GE(long_[0].took, Duration(30ms));
  EXPECT_LT(long_[0].took, Duration(40ms));
  EXPECT_EQ(turns_.totals().turns[LoopTurns::kBounds.size()], 0u);
  EXPECT_GE(turns_.totals().ran, Duration(33ms));
  EXPECT_LT(turns_.totals().ran, Duration(60ms));
}

TEST_F(LoopTurnsTest, EndWhenTheLoopLooksForEvents) {
  std::vector<std::function<void()>> handlers;
  for (int i = 0; i < 20; ++i)
    handlers.emplace_back([] { burn(3ms); });
  run(handlers);
  EXPECT_TRUE(long_.empty()) << long_.size() << " turns, the first of " << to_seconds(long_[0].took) << " s";
  const auto& counts = turns_.totals().turns;
  EXPECT_GE(counts[2] + counts[3], 20u);  // 2 to 10 ms
}

TEST_F(LoopTurnsTest, AreNamedByTheRegionThatRanLongest) {
  LiveWork live(production_.runtime().clock, true);
  const auto in_region = [&](const Site& site, LiveHandle parent, Duration time) {
    const LiveHandle region =
        live.open(parent, {.site = &site, .task = parent.slot == 0, .now_ns = live.now_ns()});
    burn(time);
    live.close(region, live.now_ns());
  };
  run({[&] {
         const LiveHandle outer = live.open({}, {.site = &kOuter, .task = true, .now_ns = live.now_ns()});
         in_region(kQuick, outer, 2ms);
         in_region(kSlow, outer, 30ms);
         in_region(kQuick, outer, 2ms);
         live.close(outer, live.now_ns());
       },
       [&] { in_region(kQuick, {}, 1ms); },  //
       [] { burn(25ms); }});
  ASSERT_EQ(long_.size(), 2u);
  EXPECT_EQ(long_[0].ran, "test.slow");
  EXPECT_EQ(long_[1].ran, "") << "nothing of what it ran has a name";
}

TEST_F(LoopTurnsTest, OfAWaitThatHasBegunAreThoseOfTheRegionBelow) {
  LiveWork live(production_.runtime().clock, true);
  run({[&] {
    Context context;
    context.live = live.open({}, {.site = &kOuter, .task = true, .now_ns = live.now_ns()});
    const LiveHandle wait =
        live.open_wait(context, WaitKind::kStore, 0, 0, 0, std::source_location::current());
    burn(30ms);
    live.close_wait(wait, Code::kOk);
    live.close(context.live, live.now_ns());
  }});
  ASSERT_EQ(long_.size(), 1u);
  EXPECT_EQ(long_[0].ran, "test.outer");
}

TEST_F(LoopTurnsTest, AreAllCounted) {
  run(std::vector<std::function<void()>>(1000, [] {}));
  EXPECT_GE(turns(), 1000u);
  EXPECT_LT(turns(), 1200u);
}

TEST(LoopTurns, OfALoopThatNobodyAskedAboutAreNotMeasured) {
  ProductionRuntime production;
  run_on(production, [&]() -> asio::awaitable<void> {
    co_await asio::post(production.runtime().executor, asio::use_awaitable);
  }());
  EXPECT_EQ(production.measure_turns().totals().turns[0], 0u);
}

}  // namespace
}  // namespace kintsugi::runtime

// The turns of an event loop: how much processor time it spends between two looks for events, and who took it.
#include "common/runtime/production/loop_turns.h"

#include "common/runtime/turn_place.h"
#include "tests/common/loop_turns_rig.h"

namespace kintsugi::runtime {
namespace {

constexpr Site kSlow{"test.slow"}, kQuick{"test.quick"};

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

TEST_F(LoopTurnsTest, AreNamedByWhatWasEnteredAndTookLongest) {
  const auto pass = [this](const Site* site, Duration time) {
    TurnPlace::here().enter(site, production_.runtime().clock.now().time_since_epoch().count());
    burn(time);
  };
  run({[&] {
         pass(&kQuick, 2ms);
         pass(&kSlow, 30ms);
         pass(&kQuick, 2ms);
         pass(nullptr, 0ms);
       },
       [] { burn(25ms); }});
  ASSERT_EQ(long_.size(), 2u);
  EXPECT_EQ(long_[0].ran, "test.slow");
  EXPECT_EQ(long_[1].ran, "") << "nothing of what it ran has a name";
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

// Moves for balance that come to nothing are not tried for ever.
#include "metaserver/repair/move_backoff.h"

#include <gtest/gtest.h>

namespace kintsugi::metaserver {
namespace {

constexpr ServerId kFull{1}, kFuller{2}, kEmpty{3}, kFourth{4};

TEST(MoveBackoff, LeavesTwoServersAloneForATimeThatGrowsAndIsBounded) {
  MoveBackoff backoff;
  TimePoint now{1h};
  Duration expected = MoveBackoff::kFirst;
  for (int failures = 0; failures < 10; ++failures) {
    EXPECT_EQ(backoff.failed(kFull, kEmpty, now), expected);
    EXPECT_EQ(backoff.failed(kFull, kEmpty, now), Duration::zero()) << "many moves fail at once";
    EXPECT_TRUE(backoff.left_alone(kFull, kEmpty, now + expected - 1s));
    now += expected;
    EXPECT_FALSE(backoff.left_alone(kFull, kEmpty, now));
    backoff.forget_old(now);
    expected = std::min<Duration>(2 * expected, MoveBackoff::kMost);
  }
  EXPECT_EQ(expected, MoveBackoff::kMost);
  backoff.succeeded(kFull, kEmpty);
  EXPECT_EQ(backoff.failed(kFull, kEmpty, now), MoveBackoff::kFirst);
  now += 1h;
  backoff.forget_old(now);
  EXPECT_EQ(backoff.failed(kFull, kEmpty, now), MoveBackoff::kFirst);
}

TEST(MoveBackoff, LeavesATargetAloneThatFailsWithTwoSources) {
  MoveBackoff backoff;
  const TimePoint now{1h};
  (void)backoff.failed(kFull, kEmpty, now);
  EXPECT_FALSE(backoff.target_left_alone(kEmpty, now));
  EXPECT_FALSE(backoff.left_alone(kFuller, kEmpty, now));
  (void)backoff.failed(kFuller, kEmpty, now);
  EXPECT_TRUE(backoff.target_left_alone(kEmpty, now));
  EXPECT_FALSE(backoff.target_left_alone(kFourth, now));
  EXPECT_FALSE(backoff.target_left_alone(kEmpty, now + MoveBackoff::kFirst));
}

TEST(MoveBackoff, SaysUntilWhenAndFromWhichServersMovesAreHeldBack) {
  MoveBackoff backoff;
  const TimePoint now{1h};
  EXPECT_FALSE(backoff.held_back(kEmpty, now));
  (void)backoff.failed(kFull, kEmpty, now);
  const auto one = backoff.held_back(kEmpty, now + 20s);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->until, now + MoveBackoff::kFirst);
  EXPECT_EQ(one->from, std::vector<ServerId>{kFull});
  EXPECT_FALSE(backoff.held_back(kFourth, now));
  EXPECT_FALSE(backoff.held_back(kEmpty, now + MoveBackoff::kFirst));
  (void)backoff.failed(kFuller, kEmpty, now + 30s);
  const auto all = backoff.held_back(kEmpty, now + 30s);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->until, now + MoveBackoff::kFirst) << "then only one source is left that failed";
  EXPECT_TRUE(all->from.empty()) << "from nobody";
  const auto last = backoff.held_back(kEmpty, now + MoveBackoff::kFirst);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->until, now + 30s + MoveBackoff::kFirst);
  EXPECT_EQ(last->from, std::vector<ServerId>{kFuller});
}

}  // namespace
}  // namespace kintsugi::metaserver

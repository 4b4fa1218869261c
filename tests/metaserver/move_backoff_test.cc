// Moves for balance that come to nothing are not tried for ever.
#include "metaserver/repair/move_backoff.h"

#include <gtest/gtest.h>

namespace kintsugi::metaserver {
namespace {

constexpr ServerId kFull{1}, kFuller{2}, kEmpty{3}, kOther{4};

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
  EXPECT_FALSE(backoff.target_left_alone(kOther, now));
  EXPECT_FALSE(backoff.target_left_alone(kEmpty, now + MoveBackoff::kFirst));
}

}  // namespace
}  // namespace kintsugi::metaserver

// How long a stay in a state is a hang, and how sure that is.
#include <cmath>

#include <gtest/gtest.h>

#include "monitoring/progress/evidence/sojourns.h"
#include "monitoring/progress/waits/verdicts.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;

constexpr uint64_t kState = 7;

Duration exp2_ns(double octaves) {
  return Duration(static_cast<int64_t>(std::exp2(octaves)));
}

TEST(Sojourns, TheChanceThatAStayIsNoUsualOneIsTheWorkedOne) {
  EXPECT_DOUBLE_EQ(Sojourns().rarity(kState, 1s).probability, 0.5);
  Sojourns hundred;
  hundred.add(kState, 4ms, 98);
  EXPECT_DOUBLE_EQ(hundred.rarity(kState, 1s).probability, 0.99);
  Sojourns thousand;
  thousand.add(kState, 4ms, 994);
  thousand.add(kState, 2s, 4);
  const Sojourns::Rarity rarity = thousand.rarity(kState, 1s);
  EXPECT_EQ(rarity.sojourns, 998u);
  EXPECT_EQ(rarity.as_long, 4u);
  EXPECT_DOUBLE_EQ(rarity.probability, 0.995);
  EXPECT_NEAR(rarity.surprise, -std::log2(0.005), 1e-9);
}

TEST(Sojourns, AHangIsFiveDeviationsBeyondTheMeanOfTheLogarithmsWithinBounds) {
  Sojourns sojourns;
  EXPECT_EQ(sojourns.limit(kState), 5s) << "nothing is known";
  sojourns.add(kState, 4ms, 29);
  EXPECT_EQ(sojourns.limit(kState), 5s) << "hardly anything is";
  sojourns.add(kState, 4ms);
  EXPECT_EQ(sojourns.limit(kState), 1s);
  Sojourns spread;  // a mean of 28 octaves and a deviation of a half: 2^30.5 ns are a second and a half
  spread.add(kState, exp2_ns(27.5), 20);
  spread.add(kState, exp2_ns(28.5), 20);
  EXPECT_NEAR(to_seconds(spread.limit(kState)), std::exp2(30.5) * 1e-9, 1e-3);
  Sojourns slow;
  slow.add(kState, 1min, 1000);
  EXPECT_EQ(slow.limit(kState), 6s);
}

TEST(Confidence, IsCertainOnlyWithAnExplicitChainAndLosesALevelForEachDoubt) {
  EXPECT_EQ(confidence_of(0.99, true, 0), Verdict::CERTAIN);
  EXPECT_EQ(confidence_of(0.99, false, 0), Verdict::LIKELY);
  EXPECT_EQ(confidence_of(0.989, true, 0), Verdict::LIKELY);
  EXPECT_EQ(confidence_of(0.9, true, 0), Verdict::LIKELY);
  EXPECT_EQ(confidence_of(0.899, true, 0), Verdict::UNSURE);
  EXPECT_EQ(confidence_of(0.995, true, 1), Verdict::LIKELY);
  EXPECT_EQ(confidence_of(0.995, true, 2), Verdict::UNSURE);
}

}  // namespace
}  // namespace kintsugi::progress

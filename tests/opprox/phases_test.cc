// Algorithm 6 and the sums of speedups, with worked numbers.
#include "tests/benchmarks/opprox/phases.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

namespace kintsugi::opprox {
namespace {

/// Mean errors of phases when there are 2, 4 or 8; sixteen differ by 4.5.
double worked_difference(size_t phases) {
  static const std::map<size_t, std::vector<double>> means{
      {2, {40, 8}}, {4, {38, 20, 9, 3}}, {8, {36, 30, 22, 17, 10, 8, 4, 2}}};
  return phases == 16 ? 4.5 : largest_difference(means.at(phases));
}

TEST(Phases, AreDividedUntilFinerOnesChangeLittle) {
  const PhaseChoice choice = choose_phases({.most = 16, .threshold = 5}, worked_difference);
  EXPECT_EQ(choice.differences, (std::vector<double>{32, 18, 8, 4.5}));
  EXPECT_EQ(choice.phases, 8u);
}

TEST(Phases, AreNotTriedBeyondTheLimit) {
  const PhaseChoice choice = choose_phases({.most = 8, .threshold = 5}, worked_difference);
  EXPECT_EQ(choice.differences.size(), 3u);
  EXPECT_EQ(choice.phases, 8u);
}

TEST(Phases, AsPrintedOnlyTheLimitEndsTheDivision) {
  // All are compared with two phases, from which sixteen differ more than eight.
  const PhaseSearch search{.most = 64, .threshold = 5, .rule = PhaseRule::kAsPrinted};
  const PhaseChoice choice =
      choose_phases(search, [](size_t phases) { return phases > 8 ? 4.5 : worked_difference(phases); });
  EXPECT_EQ(choice.phases, 64u);
}

TEST(Phases, StayTwoWhereFourSayTheSame) {
  EXPECT_EQ(choose_phases({}, [](size_t phases) { return phases == 2 ? 9.0 : 5.0; }).phases, 2u);
}

TEST(Speedup, CountsIterationsThatTheApproximationAdds) {
  EXPECT_NEAR(overall_speedup(921, 1.2, 965), 1.14528, 5e-6);
}

TEST(Speedup, OfPhasesAddsUpByWhatEachSaves) {
  EXPECT_NEAR(combined_speedup(std::vector{1.2, 1.3}), 1.6596, 5e-5);
  EXPECT_DOUBLE_EQ(combined_speedup({}), 1);
  EXPECT_TRUE(std::isinf(combined_speedup(std::vector{2.0, 2.0})));
}

}  // namespace
}  // namespace kintsugi::opprox

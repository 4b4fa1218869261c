// Equation 5.1 and algorithm 7, with worked numbers; and as they are printed.
#include "tests/benchmarks/opprox/budget.h"

#include <cmath>

#include <gtest/gtest.h>

namespace kintsugi::opprox {
namespace {

using Chosen = std::vector<std::optional<size_t>>;

const std::vector<Effect> kTwo{{1.1, 1}, {1.2, 4}};

std::vector<PhaseOptions> two_phases() {
  return {{.return_on_investment = 1, .effects = {{1.1, 2}, {1.3, 5}}},
          {.return_on_investment = 3, .effects = {{1.2, 3}, {1.5, 6}, {1.8, 9}}}};
}

TEST(Return, IsTheMeanOfGainsOverErrors) {
  EXPECT_NEAR(return_on_investment(kTwo, BudgetRule::kAsPrinted), 0.7, 1e-12);
  EXPECT_NEAR(return_on_investment(kTwo), 0.075, 1e-12);
}

TEST(Return, OfASettingWithoutErrorIsFiniteUnlessAsPrinted) {
  const std::vector<Effect> free{{1.1, 0}};
  EXPECT_NEAR(return_on_investment(free), 1, 1e-12);
  EXPECT_TRUE(std::isinf(return_on_investment(free, BudgetRule::kAsPrinted)));
}

TEST(Budget, GoesToThePhaseWithTheGreaterReturnFirst) {
  const Allotment allotment = divide_budget(two_phases(), 10);
  EXPECT_EQ(allotment.chosen, (Chosen{0, 1}));
  EXPECT_NEAR(allotment.left, 2, 1e-12);
}

TEST(Budget, WhatIsLeftGoesToWhoeverCanUseIt) {
  // The last phase to choose leaves 4 of its 4, with which the first one reaches 9.
  std::vector<PhaseOptions> phases = two_phases();
  phases[0].effects = {{1.1, 5}};
  const Allotment allotment = divide_budget(phases, 10);
  EXPECT_EQ(allotment.chosen, (Chosen{std::nullopt, 2}));
  EXPECT_NEAR(allotment.left, 1, 1e-12);
}

TEST(Budget, AsPrintedIsLostWhereItIsLeftOver) {
  const Allotment allotment = divide_budget(two_phases(), 10, BudgetRule::kAsPrinted);
  EXPECT_EQ(allotment.chosen, (Chosen{std::nullopt, 1})) << "a quarter of the 4 that are left is too little";
}

TEST(Budget, OfNothingLeavesEverythingExact) {
  EXPECT_EQ(divide_budget(two_phases(), 0).chosen, (Chosen{std::nullopt, std::nullopt}));
}

TEST(Budget, IsNeverExceededAndASlowerSettingIsNeverChosen) {
  const std::vector<PhaseOptions> phases{{.return_on_investment = 0, .effects = {{0.9, 0}, {1.4, 3}}},
                                         {.return_on_investment = 0, .effects = {{1.4, 3}}}};
  for (double budget = 0; budget < 8; budget += 0.5) {
    const Allotment allotment = divide_budget(phases, budget);
    EXPECT_GE(allotment.left, 0);
    EXPECT_NE(allotment.chosen[0], std::optional<size_t>(0));
  }
}

}  // namespace
}  // namespace kintsugi::opprox

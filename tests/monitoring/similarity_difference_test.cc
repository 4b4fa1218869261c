#include <numbers>

#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "tests/texts/compression.h"
#include "tests/texts/noise_weights.h"

namespace kintsugi::similarity {
namespace {

TEST(NormalDistance, ClosedFormIsTheWorkedOne) {
  struct Case {
    Normal a, b;
    double squared, normalised;
  };
  for (const Case& c : {Case{{0, 1}, {0, 1}, 0, 0}, Case{{0, 1}, {1, 1}, 0.124798, 0.221199},
                        Case{{0, 1}, {3, 1}, 0.504724, 0.894601}, Case{{0, 1}, {0, 2}, 0.066317, 0.156726},
                        Case{{0, 1}, {3, 2}, 0.278068, 0.657150}}) {
    EXPECT_NEAR(squared_l2(c.a, c.b), c.squared, 1e-6);
    EXPECT_NEAR(normalised_l2(c.a, c.b), c.normalised, 1e-6);
  }
}

TEST(NormalDistance, ClosedFormIsTheIntegral) {
  Draws draws(1);
  for (int i = 0; i < 20; ++i) {
    const Normal a{draws.uniform(-2, 2), draws.uniform(0.3, 2)},
        b{draws.uniform(-2, 2), draws.uniform(0.3, 2)};
    const auto density = [](const Normal& n, double x) {
      return std::exp(-(x - n.mean) * (x - n.mean) / (2 * n.deviation * n.deviation)) /
             (n.deviation * std::sqrt(2 * std::numbers::pi));
    };
    double sum = 0;
    constexpr double kStep = 1e-3;
    for (double x = -20; x < 20; x += kStep)
      sum += (density(a, x) - density(b, x)) * (density(a, x) - density(b, x)) * kStep;
    EXPECT_NEAR(squared_l2(a, b), sum, 1e-6);
  }
}

TEST(NormalDistance, TheTableIsWithinFiveTenThousandths) {
  const L2Table table;
  Draws draws(2);
  for (int i = 0; i < 200'000; ++i) {
    const double small = draws.uniform(0.1, 3),
                 ratio = std::exp(draws.uniform(0, std::log(L2Table::kLargestRatio)));
    const double distance = draws.uniform(0, L2Table::kLargestDistance * 1.1) * small;
    Normal a{5, small}, b{5 + distance, small * ratio};
    if (i % 2 == 0) std::swap(a, b);
    ASSERT_NEAR(table(a, b), normalised_l2(a, b), 0.0005)
        << a.deviation << " " << b.deviation << " " << distance;
  }
}

Edge edge(uint64_t from, uint64_t to, double count, double mean, double deviation) {
  return {.transition = {from, to}, .count = count, .mean = mean, .squares = deviation * deviation * count};
}

TEST(Difference, MergesCountsMeansAndSquares) {
  const Edge both = merged({.count = 3, .mean = 2, .squares = 2}, {.count = 2, .mean = 5, .squares = 0.5});
  EXPECT_EQ(both.count, 5);
  EXPECT_NEAR(both.mean, 3.2, 1e-9);
  EXPECT_NEAR(both.squares, 13.3, 1e-9);
}

TEST(Difference, TextFormIsTheWorkedOne) {
  const Model a({edge(3, 1, 4, 2.0, 0.2), edge(3, 2, 6, 1, 0.1)}),
      b({edge(3, 1, 5, 2.6, 0.2), edge(3, 2, 5, 1, 0.1)});
  EXPECT_NEAR(exit_difference(a, b, 3), 0.02, 1e-9);
  const double squared = squared_l2({2.0, 0.2}, {2.6, 0.2});
  EXPECT_NEAR(squared, 2.523622, 1e-6);
  EXPECT_NEAR(time_difference(*a.find({3, 1}), *b.find({3, 1}), Form::kText) / squared, 1.156522, 1e-6)
      << "alpha";
  EXPECT_NEAR(time_difference(*a.find({3, 1}), *b.find({3, 1}), Form::kText), 2.918624, 1e-5);
  EXPECT_NEAR(difference(a, b, Form::kText), 2.938624, 1e-5);
  const Model more({edge(3, 1, 5, 2.6, 0.2), edge(3, 2, 5, 1, 0.1), edge(1, 3, 1, 1, 1)});
  EXPECT_NEAR(difference(a, more, Form::kText), 12.938624, 1e-5);
  const auto top = characteristic_transitions(a, more, Form::kText);
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].transition, (Transition{1, 3}));
  EXPECT_TRUE(top[0].only_one);
  EXPECT_NEAR(top[1].magnitude, 2.918624, 1e-5);
}

TEST(Difference, NoiseWeightsAreTheWorkedOnes) {
  std::vector<Model> samples;
  for (double mean : {2.0, 2.1, 2.2})
    samples.emplace_back(std::vector{edge(3, 1, 10, mean, 0.2)});
  const auto d = [&](size_t i, size_t j) {
    return time_difference(samples[i].edges()[0], samples[j].edges()[0], Form::kText);
  };
  EXPECT_NEAR(d(0, 1), 0.171746, 1e-6);
  EXPECT_NEAR(d(0, 2), 0.635877, 1e-6);
  EXPECT_NEAR(d(1, 2), 0.171708, 1e-6);
  const auto noise = noise_weights(samples, Form::kText);
  EXPECT_NEAR(noise.at({3, 1}), 0.392988, 1e-6);
  const Model a({edge(3, 1, 10, 2.0, 0.2)}), b({edge(3, 1, 10, 2.6, 0.2)});
  EXPECT_NEAR(difference(a, b, Form::kText, noise), 7.426741, 1e-4);
}

TEST(Difference, NoNoiseWeightIsBelowATenthOfTheirMedian) {
  // The first transition takes equally long in both, the others do not.
  const std::vector<Model> samples{
      Model({edge(1, 2, 10, 2.0, 0.2), edge(2, 3, 10, 2.0, 0.2), edge(3, 1, 10, 2.0, 0.2)}),
      Model({edge(1, 2, 10, 2.0, 0.2), edge(2, 3, 10, 2.1, 0.2), edge(3, 1, 10, 2.1, 0.2)})};
  const auto noise = noise_weights(samples, Form::kText);
  EXPECT_NEAR(noise.at({2, 3}), 0.171746, 1e-6);
  EXPECT_NEAR(noise.at({1, 2}), 0.0171746, 1e-7);
}

TEST(Difference, FewerThanFiveExecutionsDifferByAtMostOneInOurs) {
  const Edge usual = edge(1, 2, 1000, 10, 0.3);
  EXPECT_EQ(time_difference(usual, edge(1, 2, 4, 14, 0.3), Form::kOurs), 1);
  EXPECT_GT(time_difference(usual, edge(1, 2, 5, 14, 0.3), Form::kOurs), 2);
}

TEST(Difference, TheTextsFormDependsOnTheUnitOfTimeAndOursDoesNot) {
  const auto text = [](double unit) {
    return time_difference(edge(1, 2, 100, 1.0 * unit, 0.1 * unit), edge(1, 2, 100, 1.5 * unit, 0.2 * unit),
                           Form::kText);
  };
  EXPECT_NEAR(text(1), 4.726, 5e-4);
  EXPECT_NEAR(text(1e3), 0.7916, 5e-4);
  EXPECT_NEAR(text(1e6), 0.7877, 5e-4);
  const auto ours = [](double shift) {
    return time_difference(edge(1, 2, 100, 10 + shift, 0.3), edge(1, 2, 100, 10.6 + shift, 0.4), Form::kOurs);
  };
  EXPECT_NEAR(ours(0), ours(10), 1e-9);
  EXPECT_GT(ours(0), 0.3);
}

TEST(Difference, ARarePathIsNoDifferenceInOurs) {
  const Model usual(
      {edge(1, 2, 995, 10, 1), edge(1, 3, 5, 14, 1), edge(2, 1, 995, 8, 1), edge(3, 1, 5, 9, 1)});
  const Model without({edge(1, 2, 60, 10, 1), edge(2, 1, 60, 8, 1)});
  EXPECT_LT(difference(usual, without, Form::kOurs), 0.01);
  EXPECT_GT(difference(usual, without, Form::kText), 20);
  const Model other({edge(1, 3, 60, 14, 1), edge(3, 1, 60, 9, 1)});
  EXPECT_GT(difference(usual, other, Form::kOurs), 5) << "another way altogether";
  EXPECT_NEAR(difference(usual, usual, Form::kOurs), 0, 1e-9);
  EXPECT_NEAR(difference(usual, other, Form::kOurs), difference(other, usual, Form::kOurs), 1e-9);
}

TEST(Difference, LogarithmsAndTimesAreMatchedByTheirMoments) {
  const Normal log2_times = log2_normal(1000, 250'000);
  EXPECT_NEAR(linear_mean(log2_times), 1000, 1e-6);
}

}  // namespace
}  // namespace kintsugi::similarity

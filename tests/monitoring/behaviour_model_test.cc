#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "monitoring/behaviour/estimator.h"
#include "monitoring/behaviour/region_watch.h"
#include "monitoring/behaviour/reservoir.h"

namespace kintsugi::behaviour {
namespace {

TEST(Lasso, OfOrthonormalColumnsShrinksEachCoefficient) {
  Eigen::MatrixXd terms(4, 2);
  terms << 1, 1, 1, -1, -1, 1, -1, -1;
  const Eigen::VectorXd target = 2 * terms.col(0) + 0.3 * terms.col(1);
  Moments moments(2);
  moments.add(terms, target);
  Lasso lasso(moments);
  const Eigen::VectorXd solved = lasso.solve(0.5);
  EXPECT_NEAR(solved(0), 1.5, 1e-9);
  EXPECT_EQ(solved(1), 0);
  EXPECT_NEAR(lasso.largest_penalty(), 2, 1e-9);
  EXPECT_NEAR(lasso.relaxed().coefficients(0), 2, 1e-6);
}

TEST(Polynomial, HasTheWorkedNumbersOfTerms) {
  EXPECT_EQ(polynomial_terms(2, 3).size(), 9u);
  EXPECT_EQ(polynomial_terms(4, 3).size(), 34u);
  EXPECT_EQ(polynomial_terms(6, 3).size(), 83u);
}

Samples two_laws(uint64_t seed) {
  Draws draws(seed);
  Samples samples;
  samples.inputs.resize(1);
  for (int i = 1; i <= 200; ++i) {
    const double p = i * 0.05, value = p <= 5 ? p : 20 + 3 * p;
    samples.inputs[0].push_back(p);
    samples.observed.push_back(value * (1 + draws.uniform(-0.01, 0.01)));
  }
  return samples;
}

TEST(Estimator, FindsTheWorkedDiscontinuityInBothForms) {
  for (const FitSettings& settings : {FitSettings{}, FitSettings::text()}) {
    const Samples samples = two_laws(1);
    const Estimator model = Estimator::fit(samples, settings);
    ASSERT_EQ(model.splits().size(), 1u);
    EXPECT_GT(model.splits()[0].at, 4.9);
    EXPECT_LT(model.splits()[0].at, 5.1);
    for (const bool high : {false, true}) {
      std::vector<size_t> side;
      for (size_t i = 0; i < samples.size(); ++i)
        if ((samples.inputs[0][i] > 5) == high) side.push_back(i);
      EXPECT_GE(Estimator::fit(samples.select(side), settings).r2(), 0.99);
    }
    FitSettings whole = settings;
    whole.split_depth = 0;
    const Estimator cubic = Estimator::fit(samples, whole);
    EXPECT_LT(cubic.r2(), model.r2());
    EXPECT_NEAR(model.predict(std::vector<double>{3.0}), 3, 0.1);
    EXPECT_NEAR(model.predict(std::vector<double>{8.0}), 44, 0.5);
  }
}

TEST(Estimator, ASmoothLawIsNotSplit) {
  Draws draws(2);
  Samples samples;
  samples.inputs.resize(2);
  for (int i = 0; i < 600; ++i) {
    const double bytes = std::exp2(draws.uniform(12, 22)), load = draws.exponential() * 3;
    samples.inputs[0].push_back(bytes);
    samples.inputs[1].push_back(load);
    samples.observed.push_back((80e3 + 4 * bytes) * (1 + 0.1 * load) * std::exp(0.05 * draws.normal()));
  }
  const Estimator model = Estimator::fit(samples, {});
  EXPECT_TRUE(model.splits().empty());
  EXPECT_GE(model.r2(), 0.97);
  const double far = model.predict(std::vector<double>{64e6, 2});
  EXPECT_NEAR(far / ((80e3 + 4 * 64e6) * 1.2), 1, 0.15) << "sixteen times beyond what it learnt from";
}

TEST(Estimator, AHeavyTailDoesNotHideThatAFormMissesTheLaw) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Draws draws(seed);
    Samples samples;
    samples.inputs.resize(2);
    for (int i = 0; i < 2000; ++i) {
      const double a = std::floor(64e3 * std::pow(62.5, draws.uniform())),
                   b = std::floor(draws.uniform(4, 13));
      double time = (5e3 + 0.05 * a * b) * std::exp(0.03 * draws.normal());
      if (draws.uniform() < 0.01) time *= 1.3 + draws.exponential();
      samples.inputs[0].push_back(a);
      samples.inputs[1].push_back(b);
      samples.observed.push_back(time);
    }
    const Estimator estimator = Estimator::fit(samples, {});
    const std::vector<double> far{1e7, 30};
    EXPECT_NEAR(estimator.predict(far), 5e3 + 0.05 * 1e7 * 30, 0.05 * 0.05 * 1e7 * 30) << "seed " << seed;
    EXPECT_LT(estimator.section(far).disagreement(far), 0.3) << "seed " << seed;
  }
}

TEST(Estimator, ASteepLawIsLearntWhereNothingElseFits) {
  Draws draws(4);
  Samples samples;
  samples.inputs.resize(1);
  for (int i = 0; i < 500; ++i) {
    samples.inputs[0].push_back(draws.uniform(0, 20));
    samples.observed.push_back(1e4 * std::exp(0.5 * samples.inputs[0].back() + 0.05 * draws.normal()));
  }
  const Estimator estimator = Estimator::fit(samples, {.split_depth = 0});
  const std::vector<double> at{18};
  EXPECT_TRUE(estimator.section(at).form().steep());
  EXPECT_NEAR(estimator.predict(at) / (1e4 * std::exp(9)), 1, 0.05);
}

TEST(Estimator, SaysThatItKnowsNothingOfNoise) {
  Draws draws(4);
  Samples samples;
  samples.inputs.resize(1);
  for (int i = 0; i < 300; ++i) {
    samples.inputs[0].push_back(draws.uniform());
    samples.observed.push_back(1 + draws.uniform());
  }
  EXPECT_LT(Estimator::fit(samples, {}).r2(), 0.2);
  Samples constant{.inputs = {std::vector<double>(50, 1)}, .observed = std::vector<double>(50, 3)};
  const Estimator model = Estimator::fit(constant, {});
  EXPECT_NEAR(model.predict(std::vector<double>{1.0}), 3, 1e-9);
  EXPECT_LT(model.r2(), 0.8) << "a constant is no law of the inputs";
}

TEST(RegionWatch, TenSuccessiveOffsMakeACandidateAndThirtyAnEstimator) {
  RegionWatch watch({Range{.mean = 50, .deviation = 30, .low = 0, .high = 100}});
  for (int i = 0; i < 9; ++i)
    EXPECT_FALSE(watch.add(std::vector<double>{90.0 + i % 5}, 500, 5, i % 2));
  EXPECT_EQ(watch.candidates(), 0u);
  watch.add(std::vector<double>{91.0}, 500, 5, 0);
  EXPECT_EQ(watch.candidates(), 1u);
  EXPECT_FALSE(watch.add(std::vector<double>{10.0}, 20, 0.1, 0))
      << "elsewhere all is well, which changes nothing there";
  EXPECT_EQ(watch.candidates(), 1u);
  std::optional<RegionWatch::Found> found;
  for (int i = 10; i < 30; ++i)
    found = watch.add(std::vector<double>{90.0 + i % 5}, 500, 5, i % 2);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->samples.size(), RegionWatch::kEnough);
  EXPECT_GE(found->low, 87.5);

  const Samples before = [] {
    Samples s{.inputs = {{}}};
    for (int i = 0; i < 100; ++i) {
      s.inputs[0].push_back(i);
      s.observed.push_back(100 + i);
    }
    return s;
  }();
  const Estimator old = Estimator::fit(before, {});
  const Estimator with = old.with_region(found->input, found->low, found->high, found->samples, {});
  EXPECT_NEAR(with.predict(std::vector<double>{92.0}), 500, 1);
  EXPECT_EQ(with.predict(std::vector<double>{40.0}), old.predict(std::vector<double>{40.0}))
      << "the rest is as it was";
}

TEST(RegionWatch, OneNormalExecutionEndsACandidate) {
  RegionWatch watch({Range{.mean = 50, .deviation = 30, .low = 0, .high = 100}});
  for (int i = 0; i < 12; ++i)
    watch.add(std::vector<double>{91.0}, 500, 5, 0);
  watch.add(std::vector<double>{91.0}, 100, 0.5, 0);
  EXPECT_EQ(watch.candidates(), 0u);
}

TEST(RegionWatch, WhatOneServerAloneDoesIsNoLaw) {
  RegionWatch watch({Range{.mean = 50, .deviation = 30, .low = 0, .high = 100}});
  for (int i = 0; i < 500; ++i)
    EXPECT_FALSE(watch.add(std::vector<double>{91.0}, 500, 5, 7));
}

TEST(Reservoir, KeepsRareSizesInAStreamOfCommonOnes) {
  Reservoir reservoir(64, 1);
  for (int i = 0; i < 10'000; ++i)
    reservoir.add(4096, {.inputs = {4096}});
  for (int i = 0; i < 20; ++i)
    reservoir.add(1 << 20, {.inputs = {1 << 20}});
  for (int i = 0; i < 10'000; ++i)
    reservoir.add(4096, {.inputs = {4096}});
  EXPECT_EQ(reservoir.size(), 64u);
  size_t large = 0;
  for (const auto& execution : reservoir.executions())
    large += execution.inputs[0] > 5000 ? 1 : 0;
  EXPECT_EQ(large, 20u);
}

}  // namespace
}  // namespace kintsugi::behaviour

#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "common/base/statistics.h"
#include "monitoring/behaviour/guardian.h"
#include "monitoring/behaviour/observation_model.h"
#include "tests/texts/guardian_rules.h"

namespace kintsugi::behaviour {
namespace {

TEST(ErrorAnalysis, DistanceIsInDeviationsOfThePopulation) {
  const std::vector<double> learnt{1, 2, 3, 4};
  const Range range = Range::of(learnt);
  EXPECT_NEAR(range.deviation, 1.118, 5e-4);
  EXPECT_NEAR(range.distance(10), 6.708, 5e-4);
  const std::vector<double> constant{3, 3, 3};
  EXPECT_EQ(Range::of(constant).distance(3), 0);
  EXPECT_TRUE(std::isinf(Range::of(constant).distance(4)));
}

double psi(double base, std::vector<double> others, std::vector<double> mic) {
  return combined_error(base, others, mic);
}

TEST(ErrorAnalysis, CombinesErrorsAsWorked) {
  EXPECT_NEAR(psi(1, {1}, {0}), 1.4142, 5e-5);
  EXPECT_NEAR(psi(1, {1}, {0.5}), 1.1180, 5e-5);
  EXPECT_NEAR(psi(1, {1}, {1}), 1, 5e-5);
  EXPECT_NEAR(psi(1, {1, 1}, {0, 0}), 1.7321, 5e-5);
  EXPECT_NEAR(psi(1, {1, 1}, {0.5, 0.5}), 1.2247, 5e-5);
  EXPECT_NEAR(psi(1, {1, 1}, {1, 0}), 1.4142, 5e-5);
  EXPECT_NEAR(psi(0.3, {0.4}, {0.25}), 0.4243, 5e-5);
  EXPECT_NEAR(psi(0.4, {0.3}, {0.25}), 0.4589, 5e-5);
}

TEST(ErrorAnalysis, BandwidthIsTheWorkedOne) {
  EXPECT_NEAR(kernel_bandwidth(0.05, 0.05 * 1.349, 200), 0.01560, 5e-5);
}

TEST(ErrorAnalysis, TheDensityHasAreaOneAndItsQuantilesAreThoseOfTheErrors) {
  Draws draws(5);
  std::vector<double> errors;
  for (int i = 0; i < 5000; ++i)
    errors.push_back(0.1 * draws.normal());
  errors.push_back(40);  // one that is far off does not blur the rest
  const ErrorDensity density = ErrorDensity::of(errors);
  EXPECT_EQ(density.below(-100), 0);
  EXPECT_EQ(density.below(100), 1);
  EXPECT_NEAR(density.quantile(0.95), quantile_of(errors, 0.95), 0.01);
  EXPECT_NEAR(density.below(0), 0.5, 0.03);
}

TEST(ErrorAnalysis, ARisingCurveNeverFallsWhereAParabolaDoes) {
  std::vector<std::pair<double, double>> pairs;
  for (int i = 0; i < 200; ++i) {
    const double d = 2 + i * 0.02;
    pairs.emplace_back(d, 0.5 - 0.03 * (d - 5) * (d - 5));
  }
  const ErrorByDistance parabola(pairs, ErrorByDistance::Shape::kQuadratic),
      rising(pairs, ErrorByDistance::Shape::kRising);
  EXPECT_NEAR(parabola.at(5), 0.5, 1e-6);
  EXPECT_EQ(parabola.at(12), 0);
  double last = 0;
  for (double d = 0; d < 40; d += 0.5) {
    EXPECT_GE(rising.at(d), last);
    last = rising.at(d);
  }
  EXPECT_GT(rising.at(40), rising.at(6) + 1e-3) << "it goes on rising beyond what was seen";
  EXPECT_EQ(ErrorByDistance({}, ErrorByDistance::Shape::kRising).at(3), 0);
}

TEST(ErrorAnalysis, SingleExecutionsOfAHeavyTailDoNotLiftTheCurve) {
  std::vector<std::pair<double, double>> pairs;
  for (int i = 0; i < 200; ++i)
    pairs.emplace_back(2 + i * 0.02, i % 15 == 7 ? 4 : 0.05);
  const ErrorByDistance rising(pairs, ErrorByDistance::Shape::kRising, 1.2);
  EXPECT_NEAR(rising.at(3), 0.06, 1e-9) << "the mean of usual errors, by their median";
  EXPECT_NEAR(rising.at(20), 0.06, 1e-9);
}

TEST(ErrorAnalysis, PoolsAdjacentViolators) {
  EXPECT_EQ(isotonic({1, 3, 2, 4}, {1, 1, 1, 1}), (std::vector<double>{1, 2.5, 2.5, 4}));
  EXPECT_EQ(isotonic({3, 2, 1}, {1, 1, 1}), (std::vector<double>{2, 2, 2}));
}

Judgement judged(double actual, double expected, double deviation) {
  return judge(100, relative_error(actual, 100), {.error = expected}, ErrorDensity::normal(0, deviation),
               false);
}

TEST(Guardian, JudgesAsWorked) {
  const auto normal = judged(128, 0.2, 0.05);
  EXPECT_NEAR(normal.error, 0.28, 1e-9);
  EXPECT_NEAR(normal.beyond, 0.08, 1e-9);
  EXPECT_NEAR(normal.probability, 0.8904, 5e-4);
  EXPECT_FALSE(is_anomaly(normal, Variant::kB, false));
  EXPECT_TRUE(is_anomaly(normal, Variant::kA, false));
  EXPECT_NEAR(judged(124, 0.2, 0.05).beyond, 0.04, 1e-9);
  EXPECT_NEAR(judged(124, 0.2, 0.05).probability, 0.5763, 5e-4);
  EXPECT_EQ(judged(119, 0.2, 0.05).beyond, 0);
  EXPECT_EQ(judged(119, 0.2, 0.05).probability, 0);
  const auto gross = judged(160, 0.05, 0.1);
  EXPECT_NEAR(gross.beyond, 0.55, 1e-9);
  EXPECT_NEAR(gross.probability, 1, 1e-4);
  EXPECT_TRUE(is_anomaly(gross, Variant::kB, false));
  const auto alarm = judged(130, 0.2, 0.05);
  EXPECT_NEAR(alarm.beyond, 0.10, 1e-9);
  EXPECT_NEAR(alarm.probability, 0.9545, 5e-4);
  EXPECT_TRUE(is_anomaly(alarm, Variant::kB, false));
  EXPECT_TRUE(is_anomaly(alarm, Variant::kFixed10, false));
  EXPECT_FALSE(is_anomaly(alarm, Variant::kFixed50, false));
}

TEST(Guardian, FasterIsNoAnomalyUnlessBothSidesCount) {
  const ErrorDensity inside = ErrorDensity::normal(0, 0.05);
  EXPECT_EQ(judge(100, -0.6, {.error = 0.05}, inside, true).probability, 0);
  EXPECT_NEAR(judge(100, -0.6, {.error = 0.05}, inside, false).probability, 1, 1e-6);
  EXPECT_FALSE(is_anomaly(judge(100, 5, {.known = false}, inside, true), Variant::kA, true))
      << "unknown is no verdict";
}

TEST(Guardian, ControlsTheShareOfWrongAlarms) {
  EXPECT_NEAR(binomial_tail(5, 20, 0.1), 0.0432, 5e-5);
  EXPECT_EQ(binomial_tail(0, 20, 0.1), 1);
  const std::vector<double> p{0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216};
  const auto rejected = benjamini_hochberg(p, 0.05);
  EXPECT_EQ(std::count(rejected.begin(), rejected.end(), true), 2);
  EXPECT_TRUE(rejected[0] && rejected[1]);
}

Samples reads(uint64_t seed, size_t count, double noise) {
  Draws draws(seed);
  Samples samples;
  samples.inputs.resize(2);
  for (size_t i = 0; i < count; ++i) {
    const double bytes = std::floor(draws.uniform(1e3, 1e5)), load = std::floor(draws.exponential() * 3);
    samples.inputs[0].push_back(bytes);
    samples.inputs[1].push_back(load);
    samples.observed.push_back((50e3 + 8 * bytes) * (1 + 0.1 * load) * std::exp(noise * draws.normal()));
  }
  return samples;
}

TEST(Guardian, KnowsHowWrongItMayBe) {
  const ObservationModel model = ObservationModel::learn(reads(1, 1500, 0.08), {});
  ASSERT_TRUE(model.usable());
  const Samples others = reads(2, 2000, 0.08);
  size_t covered = 0, flagged = 0;
  for (size_t i = 0; i < others.size(); ++i) {
    const auto interval = model.interval(others.row(i), 0.9);
    covered += others.observed[i] >= interval.low && others.observed[i] <= interval.high ? 1 : 0;
    flagged += is_anomaly(model.judge(others.row(i), others.observed[i]), Variant::kB, true) ? 1 : 0;
  }
  EXPECT_GE(covered, 2000 * 87 / 100);
  EXPECT_LE(covered, 2000 * 93 / 100);
  EXPECT_LE(flagged, 2000 * 2 / 100);
  const Judgement slow = model.judge(std::vector<double>{50e3, 2}, 3 * (50e3 + 8 * 50e3) * 1.2);
  EXPECT_TRUE(is_anomaly(slow, Variant::kB, true));
  EXPECT_TRUE(model.is_far(slow));
  const Judgement far = model.judge(std::vector<double>{2e6, 2}, (50e3 + 8 * 2e6) * 1.2);
  ASSERT_EQ(far.extrapolated.size(), 1u);
  EXPECT_EQ(far.extrapolated[0].input, 0u);
  EXPECT_GT(far.extrapolated[0].distance, 30);
  EXPECT_GT(far.expected, slow.expected);
}

TEST(Guardian, TheTextsFormIsCallable) {
  const ObservationModel model = ObservationModel::learn(reads(1, 400, 0.05), LearningSettings::text());
  EXPECT_GE(model.r2(), 0.8);
  EXPECT_EQ(model.estimator().section(std::vector<double>{5e4, 1}).form().target, Target::kPlain);
  EXPECT_TRUE(is_anomaly(model.judge(std::vector<double>{5e4, 1}, 5e6), Variant::kB, false));
}

/// Whose time grows with the square of a load: within what is learnt, that is as small as the noise.
double scanned(double bytes, double load, Draws& draws) {
  double time = (30e3 + bytes * 2 * (1 + load * load * 1e-4)) * std::exp(0.1 * draws.normal());
  if (draws.uniform() < 0.02) time *= 1.3 + draws.exponential();
  return time;
}

/// Healthy executions at a load of thirty deviations above the mean that are far off, of 500 each of twelve models that learnt from so many: with
/// the other forms that fit as well, and without them.
std::pair<size_t, size_t> far_off_of_6000(size_t learnt_from) {
  size_t flagged = 0, flagged_by_one_form = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Draws draws(seed);
    Samples samples;
    samples.inputs.resize(2);
    for (size_t i = 0; i < learnt_from; ++i) {
      const double bytes = 16e3 * std::pow(125, draws.uniform()), load = draws.uniform(0, 100);
      samples.inputs[0].push_back(bytes);
      samples.inputs[1].push_back(load);
      samples.observed.push_back(scanned(bytes, load, draws));
    }
    const ObservationModel model = ObservationModel::learn(samples, {});
    const ObservationModel one_form = ObservationModel::learn(samples, {.rivals_count = false});
    for (size_t i = 0; i < 500; ++i) {
      const std::vector<double> inputs{16e3 * std::pow(125, draws.uniform()), draws.uniform(920, 1060)};
      const double actual = scanned(inputs[0], inputs[1], draws);
      flagged += model.is_far(model.judge(inputs, actual)) ? 1 : 0;
      flagged_by_one_form += one_form.is_far(one_form.judge(inputs, actual)) ? 1 : 0;
    }
  }
  return {flagged, flagged_by_one_form};
}

TEST(Guardian, WhatAnotherFormExpectsThatFitsAsWellIsNoAnomalyFarAway) {
  EXPECT_LE(far_off_of_6000(2000).first, 6000u / 200) << "from so many executions the law is learnt";
  const auto [flagged, flagged_by_one_form] = far_off_of_6000(400);
  EXPECT_GT(flagged_by_one_form, 6000u / 10) << "from so few several laws are possible";
  EXPECT_LE(flagged, flagged_by_one_form / 3);
}

/// Little noise, and a heavy tail that makes up most of the squared errors.
double encoded(double bytes, double k, Draws& draws) {
  double time = (5e3 + 0.05 * bytes * k) * std::exp(0.03 * draws.normal());
  if (draws.uniform() < 0.01) time *= 1.3 + draws.exponential();
  return time;
}

TEST(Guardian, FindsWhatIsSlowerByTwoThirdsFarOutsideOfWhatItLearnt) {
  size_t found = 0, wrong = 0, flagged = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    Draws draws(seed);
    Samples samples;
    samples.inputs.resize(2);
    for (size_t i = 0; i < 2000; ++i) {
      const double bytes = std::floor(64e3 * std::pow(62.5, draws.uniform())),
                   k = std::floor(draws.uniform(4, 13));
      samples.inputs[0].push_back(bytes);
      samples.inputs[1].push_back(k);
      samples.observed.push_back(encoded(bytes, k, draws));
    }
    const ObservationModel model = ObservationModel::learn(samples, {});
    RecentExecutions healthy, slow;
    for (size_t i = 0; i < RecentExecutions::kRemembered; ++i) {
      const Range &bytes = model.ranges()[0], &k = model.ranges()[1];
      const std::vector<double> inputs{bytes.mean + draws.uniform(5, 10) * bytes.deviation,
                                       k.mean + draws.uniform(0, 5) * k.deviation};
      const double actual = encoded(inputs[0], inputs[1], draws);
      const auto add = [&](RecentExecutions& recent, const Judgement& judgement) {
        recent.add(model.is_far(judgement), model.is_far(judgement) || model.is_off(judgement));
      };
      add(healthy, model.judge(inputs, actual));
      const Judgement judgement = model.judge(inputs, actual * 5 / 3);
      add(slow, judgement);
      flagged += is_anomaly(judgement, Variant::kB, true) ? 1 : 0;
    }
    found += slow.enough() ? 1 : 0;
    wrong += healthy.enough() ? 1 : 0;
  }
  EXPECT_GE(found, 9u);
  EXPECT_EQ(wrong, 0u);
  EXPECT_GE(flagged, 10 * RecentExecutions::kRemembered * 9 / 10);
}

TEST(Guardian, AModelIsADetectorFromAnR2OfFourFifthsOn) {
  LearningSettings settings;
  EXPECT_EQ(settings.fit.least_r2, 0.8);
  const Samples samples = reads(1, 400, 0.05);
  const double r2 = ObservationModel::learn(samples, settings).r2();
  for (const double apart : {-0.001, 0.001}) {
    settings.fit.least_r2 = r2 + apart;
    const ObservationModel model = ObservationModel::learn(samples, settings);
    EXPECT_EQ(model.r2(), r2) << "it is told in either case";
    EXPECT_EQ(model.usable(), apart < 0);
  }
}

TEST(Guardian, AModelOfNoiseIsNoDetector) {
  Draws draws(9);
  Samples samples = reads(1, 400, 0.05);
  for (double& value : samples.observed)
    value = 1e5 * draws.exponential() + 1;
  EXPECT_FALSE(ObservationModel::learn(samples, {}).usable());
}

}  // namespace
}  // namespace kintsugi::behaviour

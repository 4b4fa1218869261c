#include <array>

#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "monitoring/metrics/rams/faithful.h"
#include "monitoring/metrics/rams/scores.h"
#include "monitoring/metrics/rams/serial_correlation.h"
#include "monitoring/metrics/trace/trace.h"
#include "tests/texts/metrics/durbin_watson_exact.h"

namespace kintsugi::rams {
namespace {

Eigen::VectorXd vector_of(std::initializer_list<double> values) {
  Eigen::VectorXd out(static_cast<Eigen::Index>(values.size()));
  std::copy(values.begin(), values.end(), out.data());
  return out;
}

/// What R 4.2.2 (lm, lmtest 0.9.40) says of these series stands in the tests below.
const Eigen::VectorXd kApp =
    vector_of({10, 12, 9, 15, 20, 18, 25, 22, 30, 28, 11, 13, 8, 16, 21, 17, 24, 23, 31, 27});
const Eigen::VectorXd kHealthy = vector_of({5.1, 6.3, 4.4, 7.2, 10.3, 8.8, 12.7, 10.9, 15.2, 13.8,
                                            5.7, 6.2, 4.1, 8.3, 10.2, 8.7, 11.8, 11.9, 15.3, 13.6});
/// The healthy series with a fault from the ninth sample on.
const Eigen::VectorXd kFaulty = vector_of(
    {5.1, 6.3, 4.4, 7.2, 10.3, 8.8, 12.7, 10.9, 9, 8.5, 8, 7.6, 7.2, 6.8, 6.5, 6.1, 5.9, 5.6, 5.4, 5.2});

Fit fitted(const Eigen::VectorXd& os, Line line) {
  return fit_line(kApp, os, line).value();
}

TEST(Rams, FitsTheLinesThatRDoes) {
  const Fit healthy = fitted(kHealthy, Line::kWithIntercept);
  EXPECT_NEAR(healthy.intercept, 0.0791752, 1e-7);
  EXPECT_NEAR(healthy.slope, 0.4971487, 1e-7);
  EXPECT_NEAR(healthy.r_squared, 0.995694, 1e-6);
  const Fit faulty = fitted(kFaulty, Line::kWithIntercept);
  EXPECT_NEAR(faulty.intercept, 5.9625764, 1e-7);
  EXPECT_NEAR(faulty.slope, 0.0743381, 1e-7);
  EXPECT_NEAR(faulty.r_squared, 0.061922, 1e-6);
  EXPECT_NEAR(fitted(kHealthy, Line::kThroughOrigin).slope, 0.500816874, 1e-9);
  EXPECT_NEAR(fitted(kFaulty, Line::kThroughOrigin).slope, 0.350585223, 1e-9);
}

TEST(Rams, ResidualsOfALineThroughTheOriginFollowTheLoadOfASickNodeAndThoseWithAnInterceptNever) {
  const auto correlation = [](const Fit& fit) {
    const Eigen::VectorXd a = fit.residuals.array() - fit.residuals.mean(), b = kApp.array() - kApp.mean();
    return a.dot(b) / (a.norm() * b.norm());
  };
  EXPECT_NEAR(correlation(fitted(kFaulty, Line::kThroughOrigin)), -0.6906, 1e-4);
  EXPECT_NEAR(correlation(fitted(kFaulty, Line::kWithIntercept)), 0, 1e-12);
}

TEST(Rams, DurbinWatsonHasTheStatisticAndTheProbabilitiesOfR) {
  struct Expected {
    const Eigen::VectorXd& os;
    Line line;
    double d, exact, exact_within;
  };
  const std::array<Expected, 4> table{{{kHealthy, Line::kWithIntercept, 3.317447, 0.999535, 1e-6},
                                       {kFaulty, Line::kWithIntercept, 0.517346, 1.2530e-5, 1e-9},
                                       {kHealthy, Line::kThroughOrigin, 3.343238, 0.999806, 1e-6},
                                       {kFaulty, Line::kThroughOrigin, 0.565278, 5.6549e-5, 1e-9}}};
  for (const Expected& expected : table) {
    const Fit fit = fitted(expected.os, expected.line);
    const auto test = durbin_watson(fit);
    ASSERT_TRUE(test) << test.error().to_string();
    EXPECT_NEAR(test->d, expected.d, 1e-6);
    const auto exact = durbin_watson_exact_p(fit, test->d);
    ASSERT_TRUE(exact);
    EXPECT_NEAR(*exact, expected.exact, expected.exact_within) << expected.d;
  }
  const auto healthy = durbin_watson(fitted(kHealthy, Line::kWithIntercept));
  EXPECT_NEAR(healthy->mean, 2.0682847, 1e-7);
  EXPECT_NEAR(healthy->variance, 0.1764490, 1e-7);
  EXPECT_NEAR(healthy->p_normal, 0.998529, 1e-6);
  EXPECT_NEAR(durbin_watson(fitted(kFaulty, Line::kWithIntercept))->p_normal, 1.11162e-4, 1e-9);
}

TEST(Rams, DurbinWatsonIsExactUpToThreeHundredSamplesAndNearlyNormalThere) {
  Draws draws(7);
  const Eigen::VectorXd app = Eigen::VectorXd::NullaryExpr(301, [&] { return 20 + draws.normal(); });
  const Eigen::VectorXd os = app.unaryExpr([&](double x) { return 0.5 * x + draws.normal(); });
  const auto whole = fit_line(app, os, Line::kWithIntercept);
  EXPECT_FALSE(durbin_watson_exact_p(*whole, durbin_watson(*whole)->d));
  const auto fit = fit_line(app.head(kMostExact), os.head(kMostExact), Line::kWithIntercept);
  const auto test = durbin_watson(*fit);
  const auto exact = durbin_watson_exact_p(*fit, test->d);
  ASSERT_TRUE(exact);
  EXPECT_NEAR(*exact, test->p_normal, 2e-3);
}

TEST(Rams, BreuschGodfreyHasTheStatisticsOfR) {
  struct Expected {
    const Eigen::VectorXd& os;
    Line line;
    size_t order;
    Before before;
    double lm;
  };
  const std::array<Expected, 8> table{{
      {kHealthy, Line::kWithIntercept, 1, Before::kZeros, 9.186108},
      {kFaulty, Line::kWithIntercept, 1, Before::kZeros, 10.237288},
      {kHealthy, Line::kThroughOrigin, 1, Before::kZeros, 9.293637},
      {kFaulty, Line::kThroughOrigin, 1, Before::kZeros, 10.045667},
      {kHealthy, Line::kWithIntercept, 1, Before::kDropsRows, 8.863602},
      {kFaulty, Line::kWithIntercept, 1, Before::kDropsRows, 10.106256},
      {kHealthy, Line::kWithIntercept, 2, Before::kZeros, 9.713455},
      {kFaulty, Line::kWithIntercept, 2, Before::kZeros, 10.321326},
  }};
  for (const Expected& expected : table) {
    const auto test = breusch_godfrey(fitted(expected.os, expected.line), expected.order, expected.before);
    ASSERT_TRUE(test) << test.error().to_string();
    EXPECT_NEAR(test->lm, expected.lm, 1e-6);
  }
  EXPECT_NEAR(breusch_godfrey(fitted(kHealthy, Line::kWithIntercept))->p, 0.0024386, 1e-7);
  EXPECT_NEAR(breusch_godfrey(fitted(kFaulty, Line::kWithIntercept))->p, 0.0013763, 1e-7);
  EXPECT_NEAR(breusch_godfrey(fitted(kHealthy, Line::kThroughOrigin))->p, 0.0022995, 1e-7);
  EXPECT_NEAR(breusch_godfrey(fitted(kFaulty, Line::kThroughOrigin))->p, 0.0015271, 1e-7);
  EXPECT_NEAR(breusch_godfrey(fitted(kHealthy, Line::kWithIntercept), 2)->p, 0.0077759, 1e-7);
  EXPECT_NEAR(autocorrelation(fitted(kHealthy, Line::kWithIntercept)), -0.6644, 1e-4);
  EXPECT_NEAR(autocorrelation(fitted(kFaulty, Line::kWithIntercept)), 0.6790, 1e-4);
}

TEST(Rams, TheTextsFormCondemnsAHealthyNodeWhoseResidualsAlternateAndOursDoesNot) {
  const auto trap = faithful_window(kApp, kHealthy, 0, 20);
  ASSERT_TRUE(trap);
  EXPECT_LT(trap->breusch_godfrey.p, 0.01);
  EXPECT_GE(trap->durbin_watson.p_normal, 0.01);
  const auto faulty = faithful_window(kApp, kFaulty, 0, 20);
  EXPECT_LT(faulty->breusch_godfrey.p, 0.01);
  EXPECT_LT(faulty->durbin_watson.p_normal, 0.01);
  EXPECT_NEAR(*serial_score(kApp, kHealthy, 0.05), -std::sqrt(9.186108), 1e-6);
  EXPECT_NEAR(*serial_score(kApp, kFaulty, 0.05), std::sqrt(10.237288), 1e-6);
}

TEST(Rams, DistancesFromAFrozenLine) {
  const auto line = freeze_line(kApp.head(8), kFaulty.head(8));
  ASSERT_TRUE(line);
  EXPECT_NEAR(line->sigma, 0.24822, 1e-5);
  const std::array<double, 5> expected{-24.5, -22.5, 10.1, 4.4, 13.0};
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto at = static_cast<Eigen::Index>(8 + i);
    EXPECT_NEAR(line->distance(kApp[at], kFaulty[at]), expected[i], 0.05) << i;
  }
  EXPECT_NEAR(*frozen_line_score(*line, kApp.segment(8, 5), kFaulty.segment(8, 5)), 14.886, 1e-3);
}

TEST(Rams, TheHalvesOfASickWindowFollowTwoLines) {
  EXPECT_NEAR(*chow_f(kApp, kHealthy), 0.19318014274882347, 1e-4);
  EXPECT_NEAR(*chow_f(kApp, kFaulty), 15.22719697537115, 1e-4);
}

TEST(Rams, SaysWhatAWindowLacks) {
  const Eigen::VectorXd constant = Eigen::VectorXd::Constant(20, 7);
  Eigen::VectorXd holes = kHealthy;
  holes[3] = metric_trace::kMissing;
  EXPECT_EQ(fit_line(kApp.head(3), kHealthy.head(3), Line::kWithIntercept).error(),
            (NotEnough{Lack::kSamples, 3, 4}));
  EXPECT_EQ(fit_line(constant, kHealthy, Line::kWithIntercept).error().lack, Lack::kMovingLoad);
  EXPECT_EQ(fit_line(Eigen::VectorXd::Zero(20), kHealthy, Line::kThroughOrigin).error().lack,
            Lack::kMovingLoad);
  EXPECT_EQ(fit_line(kApp, holes, Line::kWithIntercept).error().lack, Lack::kKnownValues);
  EXPECT_EQ(serial_score(kApp, constant, 0.05).error().lack, Lack::kMovingResiduals);
  EXPECT_EQ(serial_score(kApp, 3 * kApp, 0.05).error().lack, Lack::kMovingResiduals);
  EXPECT_EQ(faithful_window(kApp, 3 * kApp, 0, 20).error().lack, Lack::kMovingResiduals);
  EXPECT_EQ(chow_f(kApp, constant).error().lack, Lack::kMovingResiduals);
  EXPECT_EQ(freeze_line(kApp, constant).error().lack, Lack::kMovingResiduals);
  const Eigen::VectorXd steady = 1000 + kApp.array();
  EXPECT_EQ(serial_score(steady, kHealthy, 0.05).error().lack, Lack::kMovingLoad);
  EXPECT_EQ(NotEnough({Lack::kSamples, 3, 4}).to_string(),
            "not enough data because there are 3 samples of 4");
  EXPECT_EQ(breusch_godfrey(fitted(kHealthy, Line::kWithIntercept), 18).error().lack, Lack::kSamples);
}

}  // namespace
}  // namespace kintsugi::rams

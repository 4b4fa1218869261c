// Golden values are of R 4.2.2, arima() with exact likelihood, on series that anybody can make again.
#include "monitoring/metrics/augury/arima.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "monitoring/metrics/augury/minimise.h"
#include "monitoring/metrics/trace/exhaustion.h"
#include "tests/texts/metrics/augury_as_printed.h"

namespace kintsugi::augury {
namespace {

using metric_trace::exhaustion;
using metric_trace::trend_of;

/// Sums of twelve draws of Knuth's generator, less six.
std::vector<double> errors(size_t count) {
  uint64_t state = 1;
  std::vector<double> out;
  for (size_t i = 0; i < count; ++i) {
    double sum = -6;
    for (int j = 0; j < 12; ++j) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      sum += static_cast<double>(state >> 11) * 0x1.0p-53;
    }
    out.push_back(sum);
  }
  return out;
}

std::vector<double> x_series() {
  const std::vector<double> e = errors(100);
  std::vector<double> x{0};
  for (size_t t = 1; t < 100; ++t)
    x.push_back(0.7 * x[t - 1] + e[t]);
  return x;
}

std::vector<double> y_series() {
  const std::vector<double> e = errors(200);
  std::vector<double> y{10};
  for (size_t t = 1; t < 200; ++t)
    y.push_back(10 + 0.6 * (y[t - 1] - 10) + e[t] + 0.4 * e[t - 1]);
  return y;
}

std::vector<double> w_series() {
  const std::vector<double> e = errors(200);
  std::vector<double> w{100};
  for (size_t t = 1; t < 100; ++t)
    w.push_back(w[t - 1] + 0.5 + e[100 + t]);
  return w;
}

TEST(Arima, TheSeriesAreThoseOfTheGoldenValues) {
  const std::vector<double> e = errors(5);
  EXPECT_NEAR(e[0], 0.198842833, 1e-9);
  EXPECT_NEAR(e[4], -0.645756608, 1e-9);
  EXPECT_NEAR(y_series()[3], 9.9709785, 1e-7);
}

TEST(Arima, AnAutoregressionIsFoundAsByR) {
  const auto model = fit(x_series(), {1, 0, 0});
  ASSERT_TRUE(model) << model.error();
  EXPECT_NEAR(model->ar[0], 0.657833, 2e-3);
  EXPECT_NEAR(model->mean, 0.324501, 2e-3);
  EXPECT_NEAR(model->variance, 0.750709, 2e-3);
  EXPECT_NEAR(model->log_likelihood, -127.84044, 1e-3);
  EXPECT_NEAR(model->aic, 261.68088, 2e-3);
}

TEST(Arima, AMixedModelIsFoundAsByR) {
  const auto model = fit(y_series(), {1, 0, 1});
  ASSERT_TRUE(model) << model.error();
  EXPECT_NEAR(model->ar[0], 0.505708, 2e-3);
  EXPECT_NEAR(model->ma[0], 0.463671, 2e-3);
  EXPECT_NEAR(model->mean, 10.20045, 2e-3);
  EXPECT_NEAR(model->variance, 0.870302, 2e-3);
  EXPECT_NEAR(model->log_likelihood, -270.37553, 1e-3);
}

TEST(Arima, ADifferencedModelIsFoundAsByR) {
  const auto model = fit(w_series(), {0, 1, 1});
  ASSERT_TRUE(model) << model.error();
  EXPECT_NEAR(model->ma[0], 0.119159, 2e-3);
  EXPECT_NEAR(model->variance, 1.242273, 2e-3);
  EXPECT_NEAR(model->log_likelihood, -151.22074, 1e-3);
  EXPECT_NEAR(model->aic, 306.44148, 2e-3);
}

TEST(Arima, TheConditionalLikelihoodAgreesWithR) {
  const auto x = fit(x_series(), {1, 0, 0}, Likelihood::kConditional);
  ASSERT_TRUE(x) << x.error();
  EXPECT_NEAR(x->ar[0], 0.664094, 2e-3);
  EXPECT_NEAR(x->mean, 0.339089, 2e-3);
  EXPECT_NEAR(x->variance, 0.757611, 2e-3);
  const auto y = fit(y_series(), {1, 0, 1}, Likelihood::kConditional);
  ASSERT_TRUE(y) << y.error();
  EXPECT_NEAR(y->ar[0], 0.508124, 2e-3);
  EXPECT_NEAR(y->ma[0], 0.465323, 2e-3);
  EXPECT_NEAR(y->mean, 10.21067, 2e-3);
}

TEST(Arima, TheOrdersCompareAsInR) {
  const auto first = fit(y_series(), {2, 0, 0}), second = fit(y_series(), {2, 0, 1});
  ASSERT_TRUE(first && second);
  EXPECT_NEAR(first->aic, 546.921, 0.05);
  EXPECT_NEAR(second->aic, 547.659, 0.05);
  std::vector<Order> orders;
  for (int p = 0; p <= 3; ++p)
    for (int q = 0; q <= 3; ++q)
      orders.push_back({p, 0, q});
  const auto best = best_fit(y_series(), orders);
  ASSERT_TRUE(best) << best.error();
  EXPECT_EQ(best->order, (Order{2, 0, 0}));
}

/// Standard errors of the forecasts 1, 2, ... `steps` ahead of a long series, by a model without differences.
std::vector<double> forecast_errors(const Model& model, size_t steps) {
  std::vector<double> psi{1}, out;
  double sum = 0;
  for (size_t step = 0; step < steps; ++step) {
    sum += psi[step] * psi[step];
    out.push_back(std::sqrt(model.variance * sum));
    double next = step < model.ma.size() ? model.ma[step] : 0;
    for (size_t i = 0; i < std::min(model.ar.size(), step + 1); ++i)
      next += model.ar[i] * psi[step - i];
    psi.push_back(next);
  }
  return out;
}

TEST(Arima, ForecastsAndTheirErrorsAreThoseOfR) {
  const auto model = fit(y_series(), {1, 0, 1});
  ASSERT_TRUE(model) << model.error();
  const std::vector<double> next = forecast(*model, y_series(), 5), wide = forecast_errors(*model, 5);
  const double expected[] = {10.063489, 10.131186, 10.165421, 10.182734, 10.191489};
  const double deviations[] = {0.932900, 1.299277, 1.377414, 1.396695, 1.401584};
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(next[i], expected[i], 2e-3) << i;
    EXPECT_NEAR(wide[i], deviations[i], 2e-3) << i;
  }
}

TEST(Arima, TheRecursionIsTheTexts) {
  const Model stationary{.order = {2, 0, 2}, .ar = {0.5, 0.2}, .ma = {0.4, 0.1}, .mean = 1 / 0.3};
  const std::vector<double> a =
      forecast(stationary, std::vector<double>{9, 10}, std::vector<double>{-1, 1}, 4);
  const double expected_a[] = {8.1, 7.15, 6.195, 5.5275};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(a[i], expected_a[i], 1e-9) << i;
  const Model rising{.order = {1, 1, 1}, .ar = {0.5}, .ma = {0.3}};
  const std::vector<double> b = forecast(rising, std::vector<double>{100, 102}, std::vector<double>{1}, 3);
  const double expected_b[] = {103.3, 103.95, 104.275};
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(b[i], expected_b[i], 1e-9) << i;
}

double error_of(const Model& model) {
  const std::vector<double> y = y_series();
  const std::vector<double> next = forecast(model, std::span(y).first(85), 15);
  double sum = 0;
  for (size_t i = 0; i < 15; ++i)
    sum += (next[i] - y[85 + i]) * (next[i] - y[85 + i]);
  return std::sqrt(sum / 15);
}

TEST(Arima, TheModelThatForecastsBestIsTheTrueOne) {
  EXPECT_NEAR(error_of({.order = {1, 0, 1}, .ar = {0.6}, .ma = {0.4}, .mean = 10}), 2.0585, 2e-3);
  EXPECT_NEAR(error_of({.order = {1, 0, 0}, .ar = {0.9}, .ma = {}, .mean = 10}), 2.2237, 2e-3);
  EXPECT_NEAR(error_of({.order = {0, 1, 1}, .ar = {}, .ma = {-0.5}}), 2.3082, 2e-3);
}

TEST(Arima, AForecasterIsTheForecast) {
  const auto y = y_series();
  for (const Model& model : {Model{.order = {2, 0, 1}, .ar = {0.5, 0.2}, .ma = {0.3}, .mean = 10},
                             Model{.order = {1, 2, 1}, .ar = {0.4}, .ma = {-0.6}}}) {
    const Forecaster map = forecaster(model, 100, 15);
    const Eigen::VectorXf window = Eigen::Map<const Eigen::VectorXd>(y.data(), 100).cast<float>();
    const Eigen::VectorXf quick = map.weights * window + map.constant;
    const std::vector<double> exact = forecast(model, std::span(y).first(100), 15);
    for (Eigen::Index i = 0; i < 15; ++i)
      EXPECT_NEAR(quick(i), exact[static_cast<size_t>(i)], 1e-3) << i;
  }
}

TEST(Arima, WhatCannotBeFittedSaysWhy) {
  EXPECT_EQ(fit(std::vector<double>(10, 1.0), {1, 0, 0}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(fit(std::vector<double>(100, 7.0), {1, 0, 0}).error().code(), Code::kNotFound);
  EXPECT_EQ(fit(x_series(), {6, 0, 0}).error().code(), Code::kInvalidArgument);
  EXPECT_EQ(fit(x_series(), {1, 3, 0}).error().code(), Code::kInvalidArgument);
  std::vector<double> holed = x_series();
  holed[50] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(fit(holed, {1, 0, 0}).error().code(), Code::kInvalidArgument);
}

TEST(Minimise, FindsTheFloorOfABentValley) {
  const auto rosenbrock = [](const Eigen::VectorXd& at) {
    return 100 * std::pow(at(1) - at(0) * at(0), 2) + std::pow(1 - at(0), 2);
  };
  const Minimum found = minimise(rosenbrock, Eigen::Vector2d(-1.2, 1));
  EXPECT_NEAR(found.at(0), 1, 1e-3);
  EXPECT_NEAR(found.at(1), 1, 1e-3);
}

TEST(Polynomial, ARampForecastsItselfAndDoesNotAlarm) {
  std::vector<double> ramp;
  for (int t = 0; t < 100; ++t)
    ramp.push_back(50 + 0.2 * t);
  const std::vector<double> next = polynomial_forecast(ramp, 0.9, 2, 20);
  EXPECT_NEAR(next.front(), 70, 1e-6);
  EXPECT_NEAR(next.back(), 73.8, 1e-6);
  const Band band = band_of(ramp);
  EXPECT_NEAR(band.mean, 59.9, 1e-9);
  EXPECT_NEAR(band.deviation, 5.8023, 1e-4);
  EXPECT_FALSE(band.left_by(next, 5));
  EXPECT_TRUE(band.left_by(std::vector<double>{89}, 5));
}

TEST(Exhaustion, ALeakEndsWhenItsLineMeetsTheLimit) {
  Draws draws(5);
  std::vector<double> times, values;
  for (int t = 0; t < 200; ++t) {
    times.push_back(t);
    values.push_back(60 + 0.5 * t + draws.normal());
  }
  const auto trend = trend_of(times, values);
  ASSERT_TRUE(trend) << trend.error();
  EXPECT_NEAR(trend->rate, 0.5, 0.01);
  const auto end = exhaustion(*trend, 256, 3600);
  ASSERT_TRUE(end);
  EXPECT_NEAR(end->seconds_left, (256 - 159.5) / 0.5, 4);
  EXPECT_LT(end->soonest, end->seconds_left);
  EXPECT_GT(end->latest, end->seconds_left);
  EXPECT_FALSE(exhaustion(*trend, 256, 60)) << "it is later than asked for";
  EXPECT_FALSE(exhaustion(*trend, 10, 3600)) << "it leads away from the limit";
}

TEST(Exhaustion, NoiseHasNoTrendAndRoomThatShrinksEndsAtZero) {
  Draws draws(6);
  std::vector<double> times, noise, room;
  for (int t = 0; t < 100; ++t) {
    times.push_back(t);
    noise.push_back(60 + draws.normal());
    room.push_back(1000 - 4.0 * t + draws.normal());
  }
  EXPECT_FALSE(exhaustion(*trend_of(times, noise), 256, 1e9));
  const auto end = exhaustion(*trend_of(times, room), 0, 3600);
  ASSERT_TRUE(end);
  EXPECT_NEAR(end->seconds_left, 151, 2);
  EXPECT_FALSE(trend_of(std::vector<double>(5, 0.0), std::vector<double>(5, 1.0)));
}

}  // namespace
}  // namespace kintsugi::augury

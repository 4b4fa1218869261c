#include "monitoring/metrics/augury/augury.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/metrics/trace_rig.h"
#include "tests/texts/metrics/augury_as_printed.h"

namespace kintsugi::augury {
namespace {

using metric_trace::HealthyProcess;
using metric_trace::Series;

constexpr size_t kFds = 5;

Series recorded(uint64_t seed, size_t rows, const std::function<double(size_t)>& load,
                const std::function<void(size_t, std::vector<double>&)>& fault = nullptr) {
  HealthyProcess process(seed);
  metric_trace::Trace trace = metric_trace::gauges(HealthyProcess::names(), rows, [&](size_t row) {
    std::vector<double> values = process.next(load(row));
    if (fault) fault(row, values);
    return values;
  });
  trace.header.metrics[kFds].limit = 256;
  return metric_trace::series_of(trace, 0);
}

/// A load that rises and falls between these factors over 600 rows.
std::function<double(size_t)> between(double low, double high) {
  return [=](size_t row) {
    const double phase = static_cast<double>(row % 600) / 300;
    return low + (high - low) * (phase < 1 ? phase : 2 - phase);
  };
}

const Series& training() {
  static const Series series = recorded(1, 6000, between(0.5, 1.5));
  return series;
}

const Augury& trained() {
  static const Augury augury = *Augury::learn(training(), {});
  return augury;
}

TEST(Augury, ALeakIsForetoldWithItsResourceItsRateAndItsEnd) {
  constexpr size_t kBegins = 400;
  constexpr double kRate = 0.25;  // 256 are reached about 680 rows after the leak began
  const Series leaking = recorded(2, 1000, between(0.5, 1.5), [](size_t row, std::vector<double>& values) {
    if (row >= kBegins) values[kFds] += kRate * static_cast<double>(row - kBegins);
  });
  const std::vector<Alarm> alarms = alarms_of(trained(), leaking);
  ASSERT_FALSE(alarms.empty());
  const Alarm& first = alarms.front();
  const auto row = static_cast<size_t>(first.t_ns / metric_trace::kSecond);
  EXPECT_GT(row, kBegins);
  EXPECT_LT(row, kBegins + 340) << "less than half of the time that is left";
  EXPECT_EQ(first.metric, "num_fds");
}

TEST(Augury, WithForecastRowsALeakIsForetoldToo) {
  const Series leaking = recorded(2, 1000, between(0.5, 1.5), [](size_t row, std::vector<double>& values) {
    if (row >= 400) values[kFds] += 0.25 * static_cast<double>(row - 400);
  });
  const std::vector<Alarm> alarms = alarms_of(*Augury::learn(training(), {.forecast_rows = true}), leaking);
  const auto of_descriptors = std::ranges::find(alarms, "num_fds", &Alarm::metric);
  ASSERT_NE(of_descriptors, alarms.end());
  EXPECT_LT(of_descriptors->t_ns, 740 * metric_trace::kSecond);
}

TEST(Augury, TheEndOfAResourceIsForetoldWithinATenth) {
  const Series leaking = recorded(2, 1000, between(0.5, 1.5), [](size_t row, std::vector<double>& values) {
    if (row >= 400) values[kFds] += 0.25 * static_cast<double>(row - 400);
  });
  Augury augury = trained();
  std::optional<Alarm> last;
  size_t at = 0;
  for (size_t row = 0; row < 700; ++row)
    if (auto alarm = augury.step(leaking.t_ns[row], leaking.values.row(static_cast<Eigen::Index>(row)));
        alarm && alarm->metric == "num_fds") {
      last = std::move(alarm);
      at = row;
    }
  ASSERT_TRUE(last && last->exhaustion);
  EXPECT_NEAR(last->exhaustion->rate, 0.25, 0.03);
  // The mean of the load holds 80 descriptors.
  EXPECT_NEAR(last->exhaustion->seconds_left, (256 - 80 - 0.25 * static_cast<double>(at - 400)) / 0.25, 70);
}

TEST(Augury, HealthyHoursHaveNoAlarm) {
  size_t alarms = 0;
  for (uint64_t seed = 10; seed < 14; ++seed)
    alarms += alarms_of(trained(), recorded(seed, 3600, between(0.5, 1.5))).size();
  EXPECT_LE(alarms, 1U);
}

TEST(Augury, ALoadThatDoublesIsNoAlarmWhereThreeSigmaAlarms) {
  const auto load = [](size_t row) {
    return row < 600 ? 1.0 : std::min(2.0, 1 + static_cast<double>(row - 600) / 300);
  };
  size_t alarms = 0, three_sigma = 0;
  for (uint64_t seed = 20; seed < 25; ++seed) {
    const Series doubled = recorded(seed, 1200, load);
    alarms += alarms_of(trained(), doubled).empty() ? 0 : 1;
    const Eigen::VectorXd before = training().values.col(0);
    const Band band = band_of({before.data(), static_cast<size_t>(before.size())});
    const Eigen::VectorXd calls = doubled.values.col(0);
    three_sigma += band.left_by({calls.data(), static_cast<size_t>(calls.size())}, 3) ? 1 : 0;
  }
  EXPECT_EQ(alarms, 0U);
  EXPECT_EQ(three_sigma, 5U);
}

TEST(Augury, AProcessThatIsSilentIsAnAlarm) {
  Augury augury = trained();
  std::optional<Alarm> alarm;
  for (size_t row = 0; row < kSilentRows; ++row) {
    EXPECT_FALSE(alarm);
    alarm = augury.step(static_cast<int64_t>(row) * metric_trace::kSecond,
                        Eigen::RowVectorXd::Constant(10, metric_trace::kMissing));
  }
  ASSERT_TRUE(alarm);
  EXPECT_EQ(alarm->reason, Reason::kSilent);
}

TEST(Augury, ARestartForgetsTheRowsBefore) {
  Augury augury = trained();
  const Series rows =
      recorded(2, 151, between(1, 1), [](size_t, std::vector<double>& values) { values[kFds] += 150; });
  for (size_t row = 0; row < 99; ++row)
    EXPECT_FALSE(augury.step(rows.t_ns[row], rows.values.row(static_cast<Eigen::Index>(row))));
  augury.restart();
  for (size_t row = 99; row < 150; ++row)
    EXPECT_FALSE(augury.step(rows.t_ns[row], rows.values.row(static_cast<Eigen::Index>(row))));
}

TEST(Augury, TooLittleTrainingIsSaid) {
  const auto none = Augury::learn(recorded(1, 150, between(1, 1)), {});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message().find("not enough data because"), std::string::npos) << none.error();
}

TEST(AuguryAsPrinted, ScaledCovariancesHaveTheScaleOfTraining) {
  Eigen::MatrixXd window(5, 2);
  window << 1, 2, 2, 4, 3, 6, 4, 8, 5, 10;
  const std::vector<double> training{1, 2};
  EXPECT_NEAR(metric_trace::scaled_covariances(window, training)[0], 2.5, 1e-6);
  EXPECT_NEAR(metric_trace::correlations(window)[0], 1.0, 1e-6);
}

TEST(AuguryAsPrinted, AFaultLeavesTheSphereInBothModes) {
  const std::vector<size_t> columns{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<ModelSet> models;
  for (const size_t column : columns)
    models.push_back(ModelSet::learn(training(), column));
  const Series leaking = recorded(2, 400, between(0.5, 1.5), [](size_t row, std::vector<double>& values) {
    values[kFds] += static_cast<double>(row);
  });
  for (const std::vector<ModelSet>* ahead : {static_cast<std::vector<ModelSet>*>(nullptr), &models}) {
    const auto sphere = Sphere::learn(training(), columns, ahead);
    ASSERT_TRUE(sphere) << sphere.error();
    EXPECT_GT(sphere->size(), 200U);
    EXPECT_GT(sphere->distance(leaking.values.middleRows(200, kWindow)), sphere->threshold());
    const Series healthy = recorded(3, 400, between(0.5, 1.5));
    EXPECT_LT(sphere->distance(healthy.values.middleRows(200, kWindow)), sphere->threshold());
  }
}

}  // namespace
}  // namespace kintsugi::augury

#include "monitoring/metrics/augury/running_out.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/metrics/trace_rig.h"

namespace kintsugi::augury {
namespace {

using metric_trace::HealthyProcess;
using metric_trace::Series;

constexpr size_t kOpenDescriptors = 5;
constexpr double kDay = 86400;

Series recorded(uint64_t seed, size_t rows, const std::function<void(size_t, std::vector<double>&)>& fault) {
  HealthyProcess process(seed);
  metric_trace::Trace trace = metric_trace::gauges(HealthyProcess::names(), rows, [&](size_t row) {
    // The load rises and falls twice an hour.
    std::vector<double> values = process.next(1 + 0.5 * std::sin(static_cast<double>(row) / 286));
    fault(row, values);
    return values;
  });
  trace.header.metrics[kOpenDescriptors].limit = 1024;
  return metric_trace::series_of(trace, 0);
}

TEST(RunningOut, ALeakIsToldWithItsTimeWhileTheLoadRisesAndFalls) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Series leaking = recorded(seed, 2400, [](size_t row, std::vector<double>& values) {
      values[kOpenDescriptors] += 0.1 * static_cast<double>(row);
    });
    const std::vector<RunsOut> found = running_out(leaking, kDay);
    ASSERT_EQ(found.size(), 1U) << seed;
    EXPECT_EQ(found[0].metric, "num_fds");
    EXPECT_NEAR(found[0].exhaustion.seconds_left, (1024 - 320) / 0.1, 1500) << seed;
  }
}

TEST(RunningOut, WhatRisesAndFallsWithTheLoadDoesNotRunOut) {
  for (uint64_t seed = 1; seed <= 50; ++seed)
    for (const size_t rows : {2000, 2300, 2700, 3100})
      EXPECT_TRUE(running_out(recorded(seed, rows, [](size_t, std::vector<double>&) {}), kDay).empty())
          << seed;
}

TEST(RunningOut, WhatGrewOnceDoesNotRunOut) {
  const Series filled = recorded(3, 2600, [](size_t row, std::vector<double>& values) {
    values[kOpenDescriptors] += std::min(300.0, 0.3 * static_cast<double>(row));
  });
  EXPECT_TRUE(running_out(filled, kDay).empty());
}

TEST(RunningOut, WhatIsUsedUpStaysToldThoughItGrowsNoMore) {
  const Series full = recorded(3, 2600, [](size_t row, std::vector<double>& values) {
    values[kOpenDescriptors] = std::min(1023.0, values[kOpenDescriptors] + 1.0 * static_cast<double>(row));
  });
  const std::vector<RunsOut> found = running_out(full, kDay);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].exhaustion.seconds_left, 0);
}

TEST(RunningOut, OfAProcessThatIsGoneNothingRunsOut) {
  Series leaking = recorded(3, 2600, [](size_t row, std::vector<double>& values) {
    values[kOpenDescriptors] += 0.1 * static_cast<double>(row);
  });
  leaking.values.bottomRows(40).setConstant(metric_trace::kMissing);
  EXPECT_TRUE(running_out(leaking, kDay).empty());
}

TEST(RunningOut, AShortLifeSaysNothing) {
  const Series young = recorded(3, 900, [](size_t row, std::vector<double>& values) {
    values[kOpenDescriptors] += 0.5 * static_cast<double>(row);
  });
  EXPECT_TRUE(running_out(young, kDay).empty());
  EXPECT_TRUE(running_out(Series{}, kDay).empty());
}

TEST(RunningOut, ItIsToldWithWhatItGoesWithNowAndNotHoursAgo) {
  // Commits leaked in an earlier life and were mended; reads leak in this one.
  HealthyProcess process(1);
  Draws draws(2);
  double leaked = 0;
  std::vector<std::vector<metric_trace::RegionActivity>> activity;
  metric_trace::Trace trace = metric_trace::gauges(HealthyProcess::names(), 6000, [&](size_t row) {
    const bool earlier = row < 4000, commits = draws.below(5) == 0, reads = draws.below(5) == 0;
    if (row == 4000) leaked = 0;
    if (earlier ? commits : reads) leaked += 1;
    auto& of_row = activity.emplace_back();
    if (commits) of_row.push_back({.region = 0, .open = 0, .ended = 1});
    if (reads) of_row.push_back({.region = 1, .open = 0, .ended = 1});
    std::vector<double> values = process.next();
    values[kOpenDescriptors] = 40 + leaked;
    return values;
  });
  trace.header.metrics[kOpenDescriptors].limit = 1024;
  trace.header.regions = {{"chunkserver.commit", 0}, {"chunkserver.read_chunk", 0}};
  for (size_t row = 0; row < trace.rows.size(); ++row)
    trace.rows[row].activity = activity[row];
  trace.rows[4000].restarts = {{.source = 0, .build_id = "b1"}};
  const std::vector<RunsOut> found = running_out(metric_trace::series_of(trace, 0), kDay);
  ASSERT_EQ(found.size(), 1U);
  ASSERT_EQ(found[0].grows_with.size(), 1U);
  EXPECT_EQ(found[0].grows_with[0].name, "chunkserver.read_chunk");
  EXPECT_NEAR(found[0].grows_with[0].part, 1, 0.05);
}

}  // namespace
}  // namespace kintsugi::augury

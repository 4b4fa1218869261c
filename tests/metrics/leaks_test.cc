// Resources that leave what they were in healthy windows and go towards their limit.
#include "monitoring/metrics/augury/leaks.h"

#include <gtest/gtest.h>

#include "tests/metrics/trace_rig.h"

namespace kintsugi::augury {
namespace {

using metric_trace::HealthyProcess;
using metric_trace::Series;

constexpr size_t kDescriptors = 5;

Series process_with(uint64_t seed, size_t rows,
                    const std::function<void(size_t, std::vector<double>&)>& change = nullptr) {
  HealthyProcess process(seed);
  metric_trace::Trace trace = metric_trace::gauges(HealthyProcess::names(), rows, [&](size_t row) {
    std::vector<double> values = process.next(1 + 0.5 * std::sin(static_cast<double>(row) / 90));
    if (change) change(row, values);
    return values;
  });
  trace.header.metrics[kDescriptors].limit = 1024;
  return metric_trace::series_of(trace, 0);
}

std::vector<Leak> leaks_in(const Series& healthy, const Series& now) {
  const auto leaks = leaks_of(learn_usual(healthy), now);
  EXPECT_TRUE(leaks) << leaks.error();
  return leaks ? *leaks : std::vector<Leak>();
}

void open_and_never_close(size_t row, std::vector<double>& values) {
  if (row >= 300) values[kDescriptors] += 0.5 * static_cast<double>(row - 300);
}

TEST(Leaks, ALeakIsToldWithItsMetricWithinItsFirstRows) {
  const std::vector<Leak> leaks = leaks_in(process_with(1, 3000), process_with(2, 600, open_and_never_close));
  ASSERT_FALSE(leaks.empty());
  const Leak& first = leaks.front();
  EXPECT_EQ(first.metric, "num_fds");
  EXPECT_GT(first.t_ns, 300 * metric_trace::kSecond);
  EXPECT_LT(first.t_ns, 450 * metric_trace::kSecond);
  EXPECT_GT(first.exhaustion.rate, 0);
  EXPECT_LT(first.exhaustion.rate, 0.6) << "most of the first window is from before it";
  EXPECT_GT(first.now, first.usual);
}

TEST(Leaks, TenHealthyHoursHaveNone) {
  const Series healthy = process_with(1, 3600);
  for (uint64_t seed = 10; seed < 20; ++seed)
    EXPECT_TRUE(leaks_in(healthy, process_with(seed, 3600)).empty()) << seed;
}

TEST(Leaks, AMeasureOfLoadThatStoodStillAndMovesHidesNone) {
  const Series healthy = process_with(1, 3000, [](size_t, auto& values) { values[1] = 7; });
  EXPECT_FALSE(leaks_in(healthy, process_with(2, 600, open_and_never_close)).empty());
}

TEST(Leaks, WhatIsUsualInAPeerIsNone) {
  const auto twice_as_many = [](size_t, std::vector<double>& values) { values[kDescriptors] *= 2; };
  const auto becomes_twice_as_many = [](size_t row, std::vector<double>& values) {
    values[kDescriptors] *= 1 + std::min(static_cast<double>(row) / 400, 1.0);
  };
  const Series healthy = process_with(1, 3000), now = process_with(2, 600, becomes_twice_as_many);
  EXPECT_FALSE(leaks_in(healthy, now).empty());
  const HealthyTime own = learn_usual(healthy), other = learn_usual(process_with(3, 3000, twice_as_many));
  const std::vector<const HealthyTime*> peers{&other};
  const auto beside_peers = leaks_of(own, now, peers);
  ASSERT_TRUE(beside_peers);
  EXPECT_TRUE(beside_peers->empty());
  const auto leak = leaks_of(own, process_with(2, 600, open_and_never_close), peers);
  ASSERT_TRUE(leak);
  EXPECT_FALSE(leak->empty());
}

TEST(Leaks, TooLittleHealthyTimeIsSaid) {
  const auto none = leaks_of(learn_usual(process_with(1, 300)), process_with(2, 600));
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message().find("not enough data because"), std::string::npos);
}

}  // namespace
}  // namespace kintsugi::augury

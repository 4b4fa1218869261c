// Regions in which nothing ends any more, on made-up traces.
#include <gmock/gmock.h>

#include "monitoring/metrics/orion/orion.h"
#include "monitoring/metrics/orion/stuck.h"
#include "tests/metrics/trace_rig.h"

namespace kintsugi::orion {
namespace {

using metric_trace::Trace;

constexpr uint32_t kWriting = 0, kReading = 1;

/// So many rows of a healthy process in which `open` says what is open.
Trace with_open(uint64_t seed, size_t rows,
                const std::function<std::vector<metric_trace::RegionActivity>(size_t)>& open,
                const std::string& name = "chunkserver-1") {
  metric_trace::HealthyProcess process(seed);
  Trace trace = metric_trace::gauges(metric_trace::HealthyProcess::names(), rows,
                                     [&](size_t) { return process.next(); });
  trace.header.sources[0].name = name;
  trace.header.regions = {{"serve.WriteChunk", 0}, {"serve.ReadChunk", 0}, {"serve.Heartbeat", 0}};
  for (size_t row = 0; row < rows; ++row)
    trace.rows[row].activity = open(row);
  return trace;
}

/// Each region is open in two rows of seven, and the last one all the time.
std::vector<metric_trace::RegionActivity> healthy_row(size_t row) {
  if (row % 7 < 2) return {{kWriting, 1}, {kReading, 2}, {2, 1}};
  return {{2, 1}};
}

Stretches stretches(const Trace& trace) {
  return stretches_of(metric_trace::series_of(trace, 0));
}

std::vector<std::string> stuck_in(const Trace& healthy, const Trace& now) {
  const Stretches before = stretches(healthy);
  std::vector<std::string> out;
  for (const StuckRegion& region : stuck_regions(stretches(now), {&before}, std::chrono::seconds(1)))
    out.push_back(region.name);
  return out;
}

TEST(OrionStuck, TheRegionInWhichNothingEndsIsToldWithItsTime) {
  const Stretches healthy = stretches(with_open(1, 600, healthy_row));
  EXPECT_EQ(healthy.at("serve.WriteChunk").rows, 2U);
  const auto found = stuck_regions(stretches(with_open(2, 200,
                                                       [](size_t row) {
                                                         auto open = healthy_row(row);
                                                         if (row >= 100) open.push_back({kWriting, 1});
                                                         return open;
                                                       })),
                                   {&healthy}, std::chrono::milliseconds(250));
  ASSERT_EQ(found.size(), 1U) << "what is always open is not stuck";
  EXPECT_EQ(found[0].name, "serve.WriteChunk");
  EXPECT_NEAR(found[0].seconds, 25, 1);
  EXPECT_EQ(found[0].healthy_seconds, 0.5);
}

TEST(OrionStuck, WhatHealthyTimesHardlyKnowMayTakeLong) {
  const Trace now = with_open(2, 200, [](size_t row) {
    auto open = healthy_row(row);
    open.push_back({kReading, 1});
    return open;
  });
  const auto without_reads = [](size_t row) {
    return row % 300 == 0 ? std::vector<metric_trace::RegionActivity>{{kReading, 1}, {2, 1}}
                          : std::vector<metric_trace::RegionActivity>{{2, 1}};
  };
  EXPECT_TRUE(stuck_in(with_open(1, 600, without_reads), now).empty());
  EXPECT_EQ(stuck_in(with_open(1, 600, healthy_row), now), std::vector<std::string>{"serve.ReadChunk"});
}

TEST(OrionStuck, BehindTheOneThatHangsOthersPileUp) {
  const auto found = stuck_in(with_open(1, 600, healthy_row), with_open(2, 200, [](size_t row) {
                                return std::vector<metric_trace::RegionActivity>{
                                    {kReading, static_cast<float>(1 + row / 10)}, {kWriting, 1}, {2, 1}};
                              }));
  EXPECT_THAT(found, testing::ElementsAre("serve.WriteChunk", "serve.ReadChunk"));
}

TEST(OrionStuck, ARestartAndALongTimeWithoutRowsBreakAStretch) {
  const auto always = [](size_t) { return std::vector<metric_trace::RegionActivity>{{kWriting, 1}}; };
  Trace trace = with_open(2, 90, always);
  EXPECT_EQ(stretches(trace).at("serve.WriteChunk").rows, 89U) << "the first row has no rates";
  for (const size_t row : {20, 21, 22})
    trace.rows[row].activity.clear();
  EXPECT_EQ(stretches(trace).at("serve.WriteChunk").rows, 86U) << "three rows of which nothing is known";
  trace.rows[23].activity.clear();
  EXPECT_EQ(stretches(trace).at("serve.WriteChunk").rows, 66U);
  trace.rows[50].restarts = {{.source = 0, .build_id = "b2"}};
  EXPECT_EQ(stretches(trace).at("serve.WriteChunk").rows, 39U);
}

TEST(OrionStuck, WhoStandsStillIsAccusedFirstThoughNobodyElseHasItsRole) {
  Trace healthy = with_open(1, 3000, healthy_row, "metaserver");
  Trace now = with_open(
      2, 600,
      [](size_t row) {
        auto open = healthy_row(row);
        if (row >= 300) open.push_back({kWriting, 1});
        return open;
      },
      "metaserver");
  // Another process, so that there is somebody whom it could be told from.
  for (Trace* trace : {&healthy, &now}) {
    const Trace other = with_open(trace == &now ? 4 : 3, trace->rows.size(), healthy_row, "repair-manager");
    const auto columns = static_cast<uint32_t>(trace->header.metrics.size());
    trace->header.sources.push_back(other.header.sources[0]);
    for (uint32_t i = 0; i < columns; ++i) {
      trace->header.metrics.push_back(other.header.metrics[i]);
      trace->header.metrics.back().source = 1;
    }
    for (size_t row = 0; row < trace->rows.size(); ++row)
      trace->rows[row].values.insert(trace->rows[row].values.end(), other.rows[row].values.begin(),
                                     other.rows[row].values.end());
  }
  EXPECT_TRUE(localise(healthy, healthy).odd.empty());
  const Localisation found = localise(healthy, now);
  ASSERT_EQ(found.odd.size(), 1U);
  EXPECT_EQ(found.odd[0].source, "metaserver");
  ASSERT_FALSE(found.odd[0].look_at.empty());
  EXPECT_EQ(found.odd[0].look_at[0].name, "serve.WriteChunk");
  EXPECT_GT(found.odd[0].excess, 10);
}

}  // namespace
}  // namespace kintsugi::orion

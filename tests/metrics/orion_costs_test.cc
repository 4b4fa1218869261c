// Which executions a metric grows with, on made-up traces.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <gtest/gtest.h>

#include "monitoring/metrics/orion/costs.h"
#include "monitoring/metrics/orion/orion.h"
#include "tests/metrics/trace_rig.h"

namespace kintsugi::orion {
namespace {

using metric_trace::Kind;
using metric_trace::Series;
using metric_trace::Trace;

constexpr uint32_t kCommit = 0, kWrite = 1, kRead = 2, kDelete = 3;
constexpr size_t kRegions = 4;
using Ended = std::array<double, kRegions>;

/// A process with one metric: in each row executions end as they come, and `grows` says by how much the metric grows then.
/// All executions of write end together with one of commit.
Trace with_regions(uint64_t seed, size_t rows, Kind kind, const std::function<double(const Ended&)>& grows) {
  Draws draws(seed);
  Trace trace = metric_trace::gauges({"metric"}, 0, {});
  trace.header.metrics[0].kind = kind;
  for (const char* name : {"chunkserver.commit", "chunkserver.write_chunk", "chunkserver.read_chunk",
                           "chunkserver.delete_chunk"})
    trace.header.regions.push_back({.name = name, .source = 0});
  double value = 1000;
  for (size_t row = 0; row < rows; ++row) {
    const auto writes = static_cast<double>(draws.below(3));
    const Ended ended{writes, writes, static_cast<double>(draws.below(4)),
                      static_cast<double>(draws.below(2))};
    value += grows(ended);
    auto& added = trace.rows.emplace_back();
    added.t_ns = static_cast<int64_t>(row) * metric_trace::kSecond;
    added.values = {value};
    for (uint32_t region = 0; region < kRegions; ++region)
      if (ended[region] > 0) added.activity.push_back({region, 0, static_cast<float>(ended[region])});
  }
  return trace;
}

std::vector<DearerRegion> dearer(const Trace& healthy, const Trace& now) {
  const Series before = metric_trace::series_of(healthy, 0), after = metric_trace::series_of(now, 0);
  return Costs(before, after).dearer(0, kNamed);
}

double no_growth(const Ended& /*ended*/) {
  return 0;
}

TEST(OrionCosts, ALeakIsToldWithTheRegionThatLeaks) {
  const auto found =
      dearer(with_regions(1, 600, Kind::kGauge, no_growth),
             with_regions(2, 200, Kind::kGauge, [](const Ended& ended) { return ended[kRead]; }));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "chunkserver.read_chunk");
  EXPECT_NEAR(found[0].each, 1, 1e-3);
  EXPECT_NEAR(found[0].before, 0, 1e-3);
  EXPECT_NEAR(found[0].part, 1, 1e-2);
}

TEST(OrionCosts, RegionsThatEndTogetherCannotBeToldApart) {
  const auto found =
      dearer(with_regions(1, 600, Kind::kGauge, no_growth),
             with_regions(2, 200, Kind::kGauge, [](const Ended& ended) { return 4096 * ended[kCommit]; }));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "chunkserver.commit");
  EXPECT_EQ(found[0].aliases, std::vector<std::string>{"chunkserver.write_chunk"});
  EXPECT_NEAR(found[0].each, 4096, 1);
}

TEST(OrionCosts, WhatCostsAsMuchAsBeforeIsNotNamedThoughMoreOfItIsDone) {
  const auto cost = [](double read) {
    return [read](const Ended& ended) { return read * ended[kRead] + 50 * ended[kCommit] + 3; };
  };
  const auto found =
      dearer(with_regions(1, 600, Kind::kCounter, cost(2)), with_regions(2, 200, Kind::kCounter, cost(100)));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "chunkserver.read_chunk");
  EXPECT_NEAR(found[0].each, 100, 0.5);
  EXPECT_NEAR(found[0].before, 2, 0.5);
  EXPECT_TRUE(
      dearer(with_regions(1, 600, Kind::kCounter, cost(2)), with_regions(3, 200, Kind::kCounter, cost(2)))
          .empty());
}

TEST(OrionCosts, WhatFallsIsToldAsWell) {
  const auto found =
      dearer(with_regions(1, 600, Kind::kGauge, no_growth),
             with_regions(2, 200, Kind::kGauge, [](const Ended& ended) { return -2 * ended[kDelete]; }));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "chunkserver.delete_chunk");
  EXPECT_NEAR(found[0].each, -2, 1e-2);
}

TEST(OrionCosts, GrowthThatGoesWithNoExecutionNamesNone) {
  const auto found = dearer(with_regions(1, 600, Kind::kGauge, no_growth),
                            with_regions(2, 200, Kind::kGauge, [](const Ended& /*ended*/) { return 5.0; }));
  EXPECT_TRUE(found.empty());
}

TEST(OrionCosts, TracesThatDoNotSayWhatEndedNameNone) {
  Trace now = with_regions(2, 200, Kind::kGauge, [](const Ended& ended) { return ended[kRead]; });
  for (auto& row : now.rows)
    for (auto& each : row.activity)
      each.ended = 0;
  EXPECT_TRUE(dearer(with_regions(1, 600, Kind::kGauge, no_growth), now).empty());
  Trace constant = with_regions(2, 200, Kind::kGauge, no_growth);
  EXPECT_TRUE(dearer(constant, constant).empty());
}

TEST(OrionCosts, ARestartAndMissingRowsAreNoGrowth) {
  Trace now = with_regions(2, 300, Kind::kGauge, [](const Ended& ended) { return ended[kRead]; });
  now.rows[150].restarts = {{.source = 0, .build_id = "b2"}};
  for (size_t row = 150; row < now.rows.size(); ++row)
    now.rows[row].values[0] += 1e6;
  for (size_t row = 60; row < 80; ++row)
    now.rows[row].values[0] = metric_trace::kMissing;
  const auto found = dearer(with_regions(1, 600, Kind::kGauge, no_growth), now);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "chunkserver.read_chunk");
  EXPECT_NEAR(found[0].each, 1, 0.05);
}

/// The daemon's page did not answer in these rows: the next row that has one says what ended in all of them.
void lose_pages(Trace& trace, size_t every, size_t rows) {
  trace.header.metrics.push_back({.name = "kintsugi_calls", .kind = Kind::kGauge, .source = 0});
  for (size_t row = 0; row < trace.rows.size(); ++row) {
    trace.rows[row].values.push_back(static_cast<double>(row % 7));
    if (row == 0 || row % every >= rows || row + 1 == trace.rows.size()) continue;
    trace.rows[row].values[1] = metric_trace::kMissing;
    for (const auto& lost : std::exchange(trace.rows[row].activity, {})) {
      auto& next = trace.rows[row + 1].activity;
      const auto same = std::ranges::find(next, lost.region, &metric_trace::RegionActivity::region);
      if (same == next.end())
        next.push_back(lost);
      else
        same->ended += lost.ended;
    }
  }
}

TEST(OrionCosts, WhatEndedWhileThePageDidNotAnswerIsOfAllThoseRows) {
  const auto read = [](const Ended& ended) { return ended[kRead]; };
  Trace now = with_regions(2, 300, Kind::kGauge, read);
  lose_pages(now, 50, 12);
  const auto found = dearer(with_regions(1, 600, Kind::kGauge, no_growth), now);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "chunkserver.read_chunk");
  EXPECT_NEAR(found[0].each, 1, 0.1);
  EXPECT_NEAR(found[0].part, 1, 0.1);
}

TEST(OrionCosts, RowsThatAreMissingShareWhatEnded) {
  const auto read = [](const Ended& ended) { return ended[kRead]; };
  Trace now = with_regions(2, 300, Kind::kCounter, read);
  lose_pages(now, 50, 12);
  std::erase_if(now.rows, [](const auto& row) { return std::isnan(row.values[1]); });
  const auto found = dearer(with_regions(1, 600, Kind::kCounter, no_growth), now);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "chunkserver.read_chunk");
  EXPECT_NEAR(found[0].each, 1, 0.1);
}

void forget_what_ended(Trace& trace, size_t until) {
  for (size_t row = 0; row < until; ++row)
    for (auto& each : trace.rows[row].activity)
      each = {.region = each.region, .open = 1};
}

TEST(OrionCosts, AHealthyTraceOfAnOlderMonitorMakesNothingDearer) {
  const auto cost = [](const Ended& ended) { return 2 * ended[kRead] + 50 * ended[kCommit] + 3; };
  const Trace now = with_regions(2, 200, Kind::kCounter, cost);
  Trace older = with_regions(1, 600, Kind::kCounter, [&](const Ended& ended) { return 0.9 * cost(ended); });
  forget_what_ended(older, 600);
  EXPECT_TRUE(dearer(older, now).empty());
  // The monitor was upgraded during the healthy time.
  Trace both = with_regions(1, 600, Kind::kCounter, cost);
  for (size_t row = 0; row < both.rows.size(); ++row)
    both.rows[row].values[0] -= static_cast<double>(row);
  forget_what_ended(both, 450);
  EXPECT_TRUE(dearer(both, now).empty());
}

double sum_of_parts(const std::vector<DearerRegion>& regions) {
  double sum = 0;
  for (const DearerRegion& each : regions)
    sum += each.part;
  return sum;
}

TEST(OrionCosts, PartsOfWhatAlsoFallsAreNoMoreThanAll) {
  // What reads and deletes take, commits give back, nearly.
  const auto queue = [](const Ended& ended) { return ended[kRead] + ended[kDelete] - 1.9 * ended[kCommit]; };
  const auto found =
      dearer(with_regions(1, 600, Kind::kGauge, no_growth), with_regions(2, 400, Kind::kGauge, queue));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].name, "chunkserver.read_chunk");
  EXPECT_LE(sum_of_parts(found), 1 + 1e-6);
}

TEST(OrionCosts, RowsInWhichTheMetricIsNotKnownHaveNoPart) {
  const auto half = [](const Ended& ended) { return ended[kRead] + 1.5; };
  Trace now = with_regions(2, 400, Kind::kGauge, half);
  for (size_t row = 200; row < 400; ++row)
    now.rows[row].values[0] = metric_trace::kMissing;
  const auto found = dearer(with_regions(1, 600, Kind::kGauge, no_growth), now);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].part, 0.5, 0.05);
}

TEST(OrionCosts, WhatGrowsByTimeAloneWithNoiseNamesNone) {
  size_t named = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Draws noise(100 + seed);
    const auto by_time = [&](const Ended& /*ended*/) { return 0.2 + noise.normal(); };
    const auto by_nothing = [&](const Ended& /*ended*/) { return noise.normal(); };
    named += !dearer(with_regions(seed, 600, Kind::kGauge, by_nothing),
                     with_regions(1000 + seed, 400, Kind::kGauge, by_time))
                  .empty();
  }
  EXPECT_LE(named, 3U) << "of 50";
}

TEST(OrionCosts, ALeakIsToldThoughTheMetricRisesAndFalls) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Draws noise(100 + seed);
    const auto found =
        dearer(with_regions(seed, 600, Kind::kGauge, [&](const Ended& /*ended*/) { return noise.normal(); }),
               with_regions(1000 + seed, 400, Kind::kGauge,
                            [&](const Ended& ended) { return ended[kRead] + noise.normal(); }));
    ASSERT_FALSE(found.empty()) << seed;
    EXPECT_EQ(found[0].name, "chunkserver.read_chunk");
    EXPECT_NEAR(found[0].part, 1, 0.25) << seed;
  }
}

TEST(OrionCosts, NumbersThatCannotBeAreLeftOut) {
  const auto read = [](const Ended& ended) { return ended[kRead]; };
  for (const double odd : {std::numeric_limits<double>::infinity(), std::nan(""), -1e30, 1e38}) {
    Trace now = with_regions(2, 200, Kind::kGauge, read);
    now.rows[50].activity = {{kRead, 0, static_cast<float>(odd)}};
    now.rows[120].values[0] = odd;
    for (const DearerRegion& each : dearer(with_regions(1, 600, Kind::kGauge, no_growth), now)) {
      EXPECT_TRUE(std::isfinite(each.each) && std::isfinite(each.before) && std::isfinite(each.part)) << odd;
      EXPECT_EQ(describe(each).find("nan"), std::string::npos) << describe(each);
    }
  }
}

TEST(OrionCosts, NoRowsOneRowAndARestartAtEachRowNameNone) {
  const auto read = [](const Ended& ended) { return ended[kRead]; };
  const Trace healthy = with_regions(1, 600, Kind::kGauge, read);
  for (const size_t rows : {0, 1, 2})
    EXPECT_TRUE(dearer(healthy, with_regions(2, rows, Kind::kGauge, read)).empty()) << rows;
  Trace restarts = with_regions(2, 100, Kind::kGauge, read);
  for (auto& row : restarts.rows)
    row.restarts = {{.source = 0, .build_id = "b1"}};
  EXPECT_TRUE(dearer(healthy, restarts).empty());
  EXPECT_TRUE(dearer(restarts, restarts).empty());
  (void)dearer(restarts, healthy);
}

/// What comes of it in a report: a process with a metric that leaks, and a region that is open more than before.
Finding leaking(double part) {
  Finding out{.source = "chunkserver-1"};
  out.excess = 2;
  out.metrics = {{.name = "fds", .score = 9}};
  out.metrics[0].dearer = {
      {.name = "chunkserver.commit", .aliases = {"serve.WriteChunk"}, .each = 1, .part = part}};
  out.regions = {{.name = "serve.WriteChunk"}, {.name = "chunkserver.read_ahead"}};
  return out;
}

std::vector<std::string> look_at(double part) {
  const Localisation found = compared_with_peers({leaking(part)});
  std::vector<std::string> out;
  for (const NamedRegion& region : found.odd.at(0).look_at)
    out.push_back(region.name);
  return out;
}

TEST(OrionCosts, ARegionThatExplainsTheGrowthIsLookedAtBeforeThoseThatAreOpen) {
  EXPECT_EQ(look_at(0.6), (std::vector<std::string>{"chunkserver.commit", "chunkserver.read_ahead"}))
      << "serve.WriteChunk is named with the first";
  EXPECT_EQ(look_at(0.3), (std::vector<std::string>{"serve.WriteChunk", "chunkserver.read_ahead"}));
}

}  // namespace
}  // namespace kintsugi::orion

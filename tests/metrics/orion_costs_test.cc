// Which executions a metric grows with, on made-up traces.
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

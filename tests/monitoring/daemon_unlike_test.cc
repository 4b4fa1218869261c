// What /api/v1/unlike and `kintsugi-monitor judge` say of recorded metrics.
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "monitoring/daemon/unlike_api.h"
#include "monitoring/judging/report.h"
#include "monitoring/metrics/trace/files.h"
#include "tests/metrics/trace_rig.h"

namespace kintsugi::monitoring {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;
using metric_trace::Trace;

constexpr int64_t kBegan = 1'700'000'000 * metric_trace::kSecond;

/// 70 minutes of a server, of which the last ten leak descriptors when that is asked for.
Trace recorded(bool leaks) {
  metric_trace::HealthyProcess process(3);
  Trace trace = metric_trace::gauges(metric_trace::HealthyProcess::names(), 4200, [&](size_t row) {
    std::vector<double> values = process.next();
    if (leaks && row >= 3600) values[5] += 0.1 * static_cast<double>(row - 3600);
    return values;
  });
  for (auto& row : trace.rows)
    row.t_ns += kBegan;
  return trace;
}

class Unlike : public ::testing::Test {
 protected:
  Unlike() {
    std::string name = (std::filesystem::temp_directory_path() / "unlike.XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~Unlike() override { std::filesystem::remove_all(directory_); }

  Json asked(const Trace& trace, MetricsQuery query) const {
    auto keeper = metric_trace::TraceFiles::open({.directory = directory_}, trace.header);
    EXPECT_TRUE(keeper) << keeper.error();
    for (const metric_trace::Row& row : trace.rows)
      EXPECT_TRUE((*keeper)->append(row).ok());
    return Json::parse(unlike_document(query, directory_, trace.rows.back().t_ns));
  }

  std::string directory_;
};

TEST_F(Unlike, TheServerAndTheMetricThatLeaksAreNamed) {
  const Json document = asked(recorded(true), {.server = "chunkserver-1", .since_s = 600});
  ASSERT_EQ(document["findings"].size(), 1U) << document;
  EXPECT_EQ(document["findings"][0]["server"], "chunkserver-1");
  EXPECT_EQ(document["findings"][0]["metrics"][0]["name"], "num_fds");
  EXPECT_GT(document["findings"][0]["excess"], 1);
  EXPECT_THAT(document["lines"][0].get<std::string>(), HasSubstr("chunkserver-1: unlike the healthy time"));
}

/// 70 minutes of five servers. In the last ten, descriptors leak in as many of them as asked for.
Trace of_five(size_t leaking) {
  Trace all;
  for (uint64_t server = 0; server < 5; ++server) {
    metric_trace::HealthyProcess process(30 + server);
    const std::string name = "chunkserver-" + std::to_string(server + 1);
    all.header.sources.push_back({.name = name, .build_id = "b1"});
    for (const std::string& metric : metric_trace::HealthyProcess::names())
      all.header.metrics.push_back({.name = metric, .source = static_cast<uint32_t>(server)});
    all.rows.resize(4200);
    for (size_t row = 0; row < all.rows.size(); ++row) {
      std::vector<double> values = process.next();
      if (server < leaking && row >= 3600) values[5] += 0.1 * static_cast<double>(row - 3600);
      all.rows[row].t_ns = kBegan + static_cast<int64_t>(row) * metric_trace::kSecond;
      all.rows[row].values.insert(all.rows[row].values.end(), values.begin(), values.end());
    }
  }
  return all;
}

TEST_F(Unlike, OneServerIsSeenBesideOthersOfItsRole) {
  const Json document = asked(of_five(1), {.server = "chunkserver-1", .since_s = 600});
  ASSERT_EQ(document["findings"].size(), 1U) << document;
  EXPECT_EQ(document["findings"][0]["server"], "chunkserver-1");
  EXPECT_EQ(document["findings"][0]["peers"], 4);
  EXPECT_EQ(document["findings"][0]["metrics"][0]["name"], "num_fds");
}

TEST_F(Unlike, WhatAllServersDoIsLeftOutOfWhatIsSaidOfEach) {
  const Trace trace = of_five(5);
  const Json one = asked(trace, {.server = "chunkserver-1", .since_s = 600});
  const Json all =
      Json::parse(unlike_document({.server = "", .since_s = 600}, directory_, trace.rows.back().t_ns));
  EXPECT_LE(one["findings"].size(), 1U) << one;
  for (const Json& document : {one, all})
    for (const Json& each : document["findings"])
      EXPECT_LT(each["excess"], 1.2) << "some are a little farther off than the others: " << each;
}

/// Four servers, and a monitor whose descriptors leak.
Trace leaking_monitor() {
  Trace trace = of_five(1);
  trace.header.sources[0].name = "monitor";
  return trace;
}

TEST_F(Unlike, AProcessWithoutPeersIsToldAndNotAccused) {
  const Trace trace = leaking_monitor();
  const Json all = asked(trace, {.server = "", .since_s = 600});
  const Json one =
      Json::parse(unlike_document({.server = "monitor", .since_s = 600}, directory_, trace.rows.back().t_ns));
  for (const Json& document : {all, one}) {
    ASSERT_EQ(document["findings"].size(), 1U) << document;
    EXPECT_EQ(document["findings"][0]["server"], "monitor");
    EXPECT_EQ(document["findings"][0]["accused"], false);
    EXPECT_THAT(document["lines"][0].get<std::string>(),
                HasSubstr("monitor: changed, but has too few peers"));
  }
  Trace healthy = trace;
  const Trace now = judging::split(healthy, 600);
  EXPECT_FALSE(judging::judge("orion", healthy, now)->odd);
}

TEST_F(Unlike, AProcessWithoutPeersIsAccusedOfWhatRunsOut) {
  Trace trace = leaking_monitor();
  trace.header.metrics[5].limit = 1024;
  const Json document = asked(trace, {.server = "", .since_s = 600});
  ASSERT_EQ(document["findings"].size(), 1U) << document;
  EXPECT_EQ(document["findings"][0]["accused"], true);
  EXPECT_EQ(document["findings"][0]["metrics"][0]["runs_out"], true);
  EXPECT_THAT(document["lines"][0].get<std::string>(), HasSubstr("monitor: unlike the healthy time"));
  EXPECT_THAT(document["lines"][1].get<std::string>(), HasSubstr("goes towards its limit"));
  Trace healthy = trace;
  const Trace now = judging::split(healthy, 600);
  EXPECT_TRUE(judging::judge("orion", healthy, now)->odd);
}

TEST_F(Unlike, NothingIsSaidOfAHealthyServer) {
  const Json document = asked(recorded(false), {.server = "", .since_s = 600});
  EXPECT_TRUE(document["findings"].empty()) << document;
  EXPECT_EQ(document["lines"][0], "nothing is unlike the healthy time");
}

TEST_F(Unlike, NothingIsReadOrComparedOnceTheMonitorStops) {
  const Trace trace = recorded(true);
  asked(trace, {.server = "chunkserver-1", .since_s = 600});
  std::stop_source stopping;
  stopping.request_stop();
  const auto document = Json::parse(
      unlike_document({.since_s = 600}, directory_, trace.rows.back().t_ns, stopping.get_token()));
  EXPECT_FALSE(document.contains("findings")) << document;
  EXPECT_THAT(document["problem"].get<std::string>(), HasSubstr("stops"));
}

TEST_F(Unlike, WhatIsNotRecordedIsAProblem) {
  EXPECT_THAT(asked(recorded(false), {.server = "chunkserver-9"})["problem"].get<std::string>(),
              HasSubstr("chunkserver-9"));
  EXPECT_TRUE(Json::parse(unlike_document({}, directory_ + "/none", kBegan)).contains("problem"));
}

TEST(Judge, EveryMethodAnswersAndAnotherIsRefused) {
  Trace healthy = recorded(true);
  const Trace now = judging::split(healthy, 600);
  EXPECT_NEAR(static_cast<double>(now.rows.size()), 600, 1);
  for (const std::string_view method : judging::methods()) {
    if (judging::reads_logs(method)) continue;  // tests/metrics/judging_test.cc
    const auto report = judging::judge(method, healthy, now);
    ASSERT_TRUE(report) << report.error();
    EXPECT_FALSE(report->lines.empty()) << method;
    EXPECT_TRUE(Json::parse(report->json).is_array()) << method;
  }
  const auto leak = judging::judge("augury", healthy, now);
  EXPECT_TRUE(leak->odd);
  EXPECT_THAT(leak->lines[0], HasSubstr("num_fds"));
  EXPECT_EQ(judging::judge("tea-leaves", healthy, now).error().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace kintsugi::monitoring

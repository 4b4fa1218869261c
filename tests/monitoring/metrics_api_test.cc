// Metrics over time as the monitor tells them, and which processes it samples.
#include "monitoring/daemon/metrics_api.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "monitoring/daemon/sampled_processes.h"
#include "monitoring/metrics/trace/files.h"

namespace kintsugi::monitoring {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using std::chrono::seconds;
constexpr int64_t kSecond = 1'000'000'000;

TEST(MetricsQuery, NamesMayHaveCommasWithinBraces) {
  const auto query =
      MetricsQuery::parse("server=a+b&names=x%7Ba%3D%221%22%2Cb%3D%222%22%7D,rss&since=60&step=0.5");
  ASSERT_TRUE(query) << query.error();
  EXPECT_EQ(query->server, "a b");
  EXPECT_THAT(query->names, testing::ElementsAre("x{a=\"1\",b=\"2\"}", "rss"));
  EXPECT_EQ(query->since_s, 60);
  EXPECT_EQ(query->step(0.1), 0.5);
  EXPECT_EQ(query->step(1), 1) << "not below the time between two rows";
}

TEST(MetricsQuery, StepsAreLongEnoughForAPlot) {
  EXPECT_EQ(MetricsQuery::parse("since=3600")->step(1), 12);
  EXPECT_EQ(MetricsQuery::parse("since=86400&step=1")->step(1), 86400 / MetricsQuery::kMostPoints);
}

TEST(MetricsQuery, WhatIsNotUnderstoodIsNamed) {
  for (const char* query :
       {"since=0", "since=-1", "since=x", "since=1e99", "step=nan", "since=inf", "color=red"}) {
    const auto parsed = MetricsQuery::parse(query);
    ASSERT_FALSE(parsed) << query;
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
  }
  std::string many = "names=a";
  for (size_t i = 0; i < MetricsQuery::kMostNames; ++i)
    many += ",a";
  EXPECT_FALSE(MetricsQuery::parse(many));
  EXPECT_TRUE(MetricsQuery::parse("&&names=&server=%zz%"));
}

class MetricsDocument : public testing::Test {
 protected:
  MetricsDocument() {
    std::string name = (fs::temp_directory_path() / "metrics_api_test.XXXXXX").string();
    source.directory = ::mkdtemp(name.data());
  }
  ~MetricsDocument() override { fs::remove_all(source.directory); }

  void record() {
    metric_trace::Header header;
    header.sources = {{"chunkserver-1", "b1"}, {"metaserver", "b1"}};
    header.metrics = {{"rss", metric_trace::Kind::kGauge, 0},
                      {"fds", metric_trace::Kind::kGauge, 0, 256},
                      {"rss", metric_trace::Kind::kGauge, 1}};
    header.regions = {{"disk.read", 0}};
    auto keeper = metric_trace::TraceFiles::open({.directory = source.directory}, header);
    ASSERT_TRUE(keeper) << keeper.error();
    for (int i = 0; i < 20; ++i) {
      metric_trace::Row row{.t_ns = i * kSecond,
                            .values = {1.0 * i, 57, metric_trace::kMissing},
                            .activity = {},
                            .restarts = {}};
      if (i == 4) row.restarts = {{.source = 0, .build_id = "b2"}};
      ASSERT_TRUE((*keeper)->append(row).ok());
    }
  }
  Json ask(std::string_view query) const {
    return Json::parse(metrics_document(*MetricsQuery::parse(query), source, 19 * kSecond), nullptr, false);
  }

  MetricsSource source;
};

TEST_F(MetricsDocument, ListsServersAndMetrics) {
  record();
  source.state.rows = 20;
  const Json list = ask("");
  ASSERT_EQ(list.at("servers").size(), 2u);
  EXPECT_EQ(list.at("servers")[0].at("name"), "chunkserver-1");
  ASSERT_EQ(list.at("servers")[0].at("metrics").size(), 3u);
  EXPECT_EQ(list.at("servers")[0].at("metrics")[2].at("name"), "kintsugi_module_open{module=\"disk.read\"}");
  EXPECT_EQ(list.at("recording").at("rows"), 20);
  EXPECT_FALSE(list.contains("problem"));
}

TEST_F(MetricsDocument, ListsAServerThatIsGone) {
  record();
  metric_trace::Header later;
  later.sources = {{"metaserver", "b1"}};
  later.metrics = {{"rss", metric_trace::Kind::kGauge, 0}};
  later.period = seconds(1);
  auto keeper = metric_trace::TraceFiles::open({.directory = source.directory}, later);
  ASSERT_TRUE(keeper) << keeper.error();
  ASSERT_TRUE((*keeper)->append({.t_ns = int64_t{100} * 1'000'000'000, .values = {1}}).ok());
  const Json list = ask("");
  ASSERT_EQ(list.at("servers").size(), 2u);
  EXPECT_EQ(list.at("servers")[0].at("name"), "chunkserver-1");
}

TEST_F(MetricsDocument, HasPointsOfTimeLeastMeanAndMost) {
  record();
  const Json answer = ask("server=chunkserver-1&names=rss,fds&since=19&step=5");
  EXPECT_EQ(answer.at("step_s"), 5);
  ASSERT_EQ(answer.at("series").size(), 2u);
  const Json& rss = answer.at("series")[0];
  EXPECT_EQ(rss.at("metric"), "rss");
  ASSERT_EQ(rss.at("points").size(), 4u);
  EXPECT_EQ(rss.at("points")[1], Json::array({5.0, 5.0, 7.0, 9.0}));
  EXPECT_TRUE(rss.at("limit").is_null());
  EXPECT_EQ(answer.at("series")[1].at("limit"), 256);
  ASSERT_EQ(answer.at("restarts").size(), 1u);
  EXPECT_EQ(answer.at("restarts")[0].at("unix_s"), 4);
  EXPECT_EQ(ask("names=rss").at("series").size(), 2u) << "of all servers";
  EXPECT_TRUE(ask("names=rss").at("series")[1].at("points").empty());
}

TEST_F(MetricsDocument, ASumIsOneSeriesForEachMetric) {
  record();
  const Json answer = ask("names=rss&since=19&step=5&sum=yes");
  ASSERT_EQ(answer.at("series").size(), 1u);
  EXPECT_EQ(answer.at("series")[0].at("server"), "");
  EXPECT_EQ(answer.at("series")[0].at("points")[1], Json::array({5.0, 5.0, 7.0, 9.0}));
  EXPECT_FALSE(MetricsQuery::parse("sum=no"));
}

TEST_F(MetricsDocument, NothingRecordedIsSaid) {
  const Json list = ask("");
  EXPECT_TRUE(list.at("servers").empty());
  EXPECT_TRUE(list.contains("problem"));
  EXPECT_TRUE(ask("names=rss").at("series").empty());
}

// ---- who is sampled

struct Reported {
  model::Processes processes;
  TimePoint now{seconds(1000)};
  uint64_t next = 1;

  proto::SightReport report(const std::string& kind, const std::string& name, uint64_t uptime_s = 100) {
    proto::SightReport report;
    report.set_process(next++);
    report.set_sequence(1);
    report.set_kind(kind);
    report.set_name(name);
    report.set_pid(4711);
    report.set_pid_namespace(5);
    report.set_uptime_ns(uptime_s * kSecond);
    report.set_address(fmt::format("10.0.0.{}:9600", report.process()));
    report.set_http_address("127.0.0.1:9601");
    report.set_build_id("\x01\xab");
    report.mutable_system()->set_machine("here");
    return report;
  }
  void take(const proto::SightReport& report) { ASSERT_TRUE(processes.accept(report, now).ok()); }
  std::vector<recording::Target> targets() {
    return sampled_processes(processes.snapshot(now, 0, {}), {.id = "here", .pid_namespace = 5});
  }
};

TEST(SampledProcesses, AreDaemonsAndMountsAndNoClients) {
  Reported all;
  all.take(all.report("chunkserver", "chunkserver-1"));
  all.take(all.report("mount", "mount at /mnt"));
  all.take(all.report("client", "client here"));
  all.take(all.report("", ""));  // it has not said yet who it is
  const auto targets = all.targets();
  ASSERT_EQ(targets.size(), 2u);
  EXPECT_EQ(targets[0].name, "chunkserver-1");
  EXPECT_EQ(targets[0].build_id, "01ab");
  EXPECT_EQ(targets[0].pid, 4711u);
  EXPECT_TRUE(targets[0].is_local);
  EXPECT_EQ(targets[0].page->to_string(), "127.0.0.1:9601");
}

TEST(SampledProcesses, OfTwoWithOneNameTheOneThatBeganLastCounts) {
  Reported all;
  all.take(all.report("chunkserver", "chunkserver-1", 500));
  all.take(all.report("chunkserver", "chunkserver-1", 3));
  all.take(all.report("chunkserver", "chunkserver-1", 400));
  const auto targets = all.targets();
  ASSERT_EQ(targets.size(), 1u);
  EXPECT_EQ(targets[0].process, 2u);
}

TEST(SampledProcesses, OfAnotherMachineOnlyThePageCanBeRead) {
  Reported all;
  proto::SightReport far = all.report("chunkserver", "far");
  far.mutable_system()->set_machine("there");
  all.take(far);
  EXPECT_TRUE(all.targets().empty()) << "its loopback is not ours";
  far.set_sequence(2);
  far.set_http_address("0.0.0.0:9601");
  all.take(far);
  ASSERT_EQ(all.targets().size(), 1u);
  EXPECT_FALSE(all.targets()[0].is_local);
  EXPECT_EQ(all.targets()[0].page->to_string(), "10.0.0.1:9601");
  // A container of this machine counts its processes by itself.
  proto::SightReport inside = all.report("chunkserver", "inside");
  inside.set_pid_namespace(6);
  inside.set_http_address("");
  all.take(inside);
  EXPECT_EQ(all.targets().size(), 1u);
}

}  // namespace
}  // namespace kintsugi::monitoring

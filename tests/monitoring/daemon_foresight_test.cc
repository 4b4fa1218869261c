// Resources that run out, from the trace that a sampler wrote to the verdict that people read.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/log/log.h"
#include "common/proto/verdict_advice.h"
#include "common/proto/verdicts.h"
#include "monitoring/daemon/foresight.h"
#include "monitoring/metrics/trace/files.h"
#include "monitoring/progress/waits/verdicts.h"
#include "tests/metrics/trace_rig.h"

namespace kintsugi::monitoring {
namespace {

using metric_trace::Trace;
using ::testing::HasSubstr;

int64_t wall_now() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// 40 minutes until now of a server that opens a descriptor every `seconds` and closes none; 0: it closes all.
Trace recorded(double seconds) {
  metric_trace::HealthyProcess process(7);
  Trace trace = metric_trace::gauges(metric_trace::HealthyProcess::names(), 2400, [&](size_t row) {
    std::vector<double> values = process.next();
    if (seconds > 0) values[5] += static_cast<double>(row) / seconds;
    return values;
  });
  trace.header.metrics[5].limit = 1024;
  for (auto& row : trace.rows)
    row.t_ns += wall_now() - 2400 * metric_trace::kSecond;
  return trace;
}

std::string directory_of(const Trace& trace) {
  std::string name = (std::filesystem::temp_directory_path() / "foresight.XXXXXX").string();
  EXPECT_NE(::mkdtemp(name.data()), nullptr);
  auto keeper = metric_trace::TraceFiles::open({.directory = name}, trace.header);
  EXPECT_TRUE(keeper) << keeper.error();
  for (const metric_trace::Row& row : trace.rows)
    EXPECT_TRUE((*keeper)->append(row).ok());
  return name;
}

std::vector<proto::Verdict> verdicts_of(const std::string& directory) {
  Foresight foresight(directory);
  EXPECT_TRUE(foresight.start().ok());
  for (int i = 0; i < 100 && foresight.standing().empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  model::Snapshot snapshot;
  snapshot.servers = {{.server_id = 11, .address = "10.0.0.1:7000", .name = "chunkserver-1"}};
  return ForesightDetector(foresight).examine(snapshot);
}

TEST(Foresight, DescriptorsThatAreNotClosedAreForetold) {
  const std::string directory = directory_of(recorded(5));
  const std::vector<proto::Verdict> found = verdicts_of(directory);
  std::filesystem::remove_all(directory);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].kind(), proto::Verdict::RUNS_OUT);
  EXPECT_EQ(found[0].server(), "chunkserver-1");
  EXPECT_EQ(found[0].server_id(), 11U);
  EXPECT_NEAR(found[0].forecast().rate_per_s(), 0.2, 0.02);
  // 80 are for the load, and 480 have been opened.
  EXPECT_NEAR(found[0].forecast().seconds_left(), (1024 - 560) / 0.2, 300);
  EXPECT_THAT(proto::describe(found[0]), HasSubstr("chunkserver-1: runs out of num_fds in 3"));
  EXPECT_THAT(proto::advise(found[0]), HasSubstr("raise that limit or restart chunkserver-1"));
}

TEST(Foresight, TheExecutionsThatItGoesWithAreNamed) {
  // What leaks a descriptor with each of its executions, and what is executed as often and leaks none.
  Trace trace = recorded(0);
  trace.header.regions = {{"chunkserver.commit", 0}, {"chunkserver.read_chunk", 0}};
  Draws draws(3);
  double leaked = 0;
  for (auto& row : trace.rows) {
    const bool commits = draws.below(5) == 0, reads = draws.below(5) == 0;
    if (commits) row.activity.push_back({.region = 0, .open = 0, .ended = 1});
    if (reads) row.activity.push_back({.region = 1, .open = 0, .ended = 1});
    row.values[5] += leaked += commits ? 1 : 0;
  }
  const std::string directory = directory_of(trace);
  const std::vector<proto::Verdict> found = verdicts_of(directory);
  std::filesystem::remove_all(directory);
  ASSERT_EQ(found.size(), 1U);
  ASSERT_GE(found[0].slice_size(), 1);
  EXPECT_EQ(found[0].slice(0).region(), "chunkserver.commit");
  EXPECT_EQ(found[0].slice(0).process(), "chunkserver-1");
  EXPECT_THAT(found[0].why(found[0].why_size() - found[0].slice_size()),
              HasSubstr("with each chunkserver.commit"));
}

TEST(Foresight, TwoResourcesOfOneServerAreTwoAlarmsThatStayTheSameWhileTheirTimesChange) {
  const auto alarm = [](const std::string& resource, double seconds_left) {
    proto::Verdict verdict;
    verdict.set_kind(proto::Verdict::RUNS_OUT);
    verdict.set_server("chunkserver-1");
    verdict.set_region(resource);
    verdict.mutable_forecast()->set_seconds_left(seconds_left);
    return progress::identity(verdict);
  };
  EXPECT_NE(alarm("fds", 600), alarm("free_bytes", 600));
  EXPECT_EQ(alarm("fds", 600), alarm("fds", 540));
}

TEST(Foresight, RoomThatShrinksForHoursIsForetold) {
  const Trace trace = metric_trace::gauges({"kintsugi_chunkserver_free_bytes"}, 6 * 3600, [](size_t second) {
    return std::vector<double>{1e12 - 1.65e6 * static_cast<double>(second)};
  });
  const std::vector<Foretold> found = room_that_runs_out(trace);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].what.exhaustion.seconds_left / 86400, 6.8, 0.1);
  EXPECT_TRUE(resources_that_run_out(trace).empty());
}

/// Six hours of servers with so much free room at the beginning, of which each loses so much a second.
Trace rooms(const std::vector<std::pair<double, double>>& servers) {
  Trace trace =
      metric_trace::gauges(std::vector<std::string>(servers.size(), "kintsugi_chunkserver_free_bytes"),
                           6 * 3600, [&](size_t second) {
                             std::vector<double> free;
                             for (const auto& [first, each_second] : servers)
                               free.push_back(first - each_second * static_cast<double>(second));
                             return free;
                           });
  trace.header.sources.clear();
  for (uint32_t i = 0; i < servers.size(); ++i) {
    trace.header.sources.push_back({.name = "chunkserver-" + std::to_string(i + 1), .build_id = {}});
    trace.header.metrics[i].source = i;
  }
  return trace;
}

TEST(Foresight, RoomThatEndsOnAllServersIsToldOnceOfTheCluster) {
  const std::vector<Foretold> found =
      room_that_runs_out(rooms({{1e12, 1.65e6}, {1.1e12, 1.8e6}, {1e12, 1.7e6}}));
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].server, "cluster");
  // 3.1e12 bytes at 5.15e6 a second are gone after seven days less an hour.
  EXPECT_NEAR(found[0].what.exhaustion.seconds_left / 86400, 3.1e12 / 5.15e6 / 86400 - 0.25, 0.1);
}

TEST(Foresight, AServerWhoseRoomEndsLongBeforeThatOfTheClusterIsToldAsWell) {
  const std::vector<Foretold> found = room_that_runs_out(rooms({{1e12, 1.65e6}, {4e11, 1.65e6}}));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].server, "cluster");
  EXPECT_EQ(found[1].server, "chunkserver-2");
}

TEST(Foresight, AServerThatIsAwayForSecondsMakesNoTrendOfTheClustersRoom) {
  Trace trace = rooms({{1e12, 0}, {1e12, 0}});
  for (size_t row = 0; row < trace.rows.size(); ++row)
    if (row % 100 < 20) trace.rows[row].values[1] = metric_trace::kMissing;
  EXPECT_TRUE(room_that_runs_out(trace).empty());
}

/// Six hours of a process with 16 GiB of memory that grows from 1 GiB by `each_second` bytes for `seconds`.
Trace memory(double each_second, size_t seconds) {
  Trace trace = metric_trace::gauges({"rss"}, 6 * 3600, [&](size_t second) {
    return std::vector<double>{1073741824 + each_second * static_cast<double>(std::min(second, seconds))};
  });
  trace.header.metrics[0].limit = 16.0 * 1073741824;
  return trace;
}

TEST(Foresight, MemoryThatGrowsForHoursIsForetold) {
  const Trace trace = memory(50'000, 6 * 3600);
  const std::vector<Foretold> found = memory_that_runs_out(trace);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].what.metric, "rss");
  EXPECT_NEAR(found[0].what.exhaustion.seconds_left, 15.0 * 1073741824 / 50'000 - 6 * 3600, 3600);
  EXPECT_TRUE(resources_that_run_out(trace).empty()) << "minutes tell nothing of memory";
}

TEST(Foresight, ACacheThatFillsInTwoHoursIsNotForetold) {
  EXPECT_TRUE(memory_that_runs_out(memory(200'000, 2 * 3600)).empty());
}

TEST(Foresight, ALookThatFailsByAnExceptionEndsNothingAndIsTriedAgain) {
  std::atomic<int> warnings = 0;
  log::set_sink([&](log::Level level, std::string_view) { warnings += level == log::Level::kWarning; });
  std::atomic<int> looks = 0;
  Foresight::Looks fails{.every = std::chrono::milliseconds(5)};
  fails.resources = [&](const std::string&, const std::stop_token&) -> std::vector<Foretold> {
    const int look = ++looks;
    if (look == 2 || look == 3) throw std::bad_alloc();
    return {{.server = "chunkserver-1"}};
  };
  Foresight foresight("", fails);
  ASSERT_TRUE(foresight.start().ok());
  while (looks < 5)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(foresight.standing().size(), 1U);
  foresight.stop();
  log::set_sink({});
  EXPECT_EQ(warnings, 1);
}

TEST(Foresight, ALookThatTakesLongDoesNotHoldUpTheStop) {
  std::atomic<bool> looks = false;
  Foresight::Looks slow;
  slow.resources = [&](const std::string&, const std::stop_token& stop) -> std::vector<Foretold> {
    looks = true;
    while (!stop.stop_requested())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {};
  };
  Foresight foresight("", slow);
  ASSERT_TRUE(foresight.start().ok());
  while (!looks)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto began = std::chrono::steady_clock::now();
  foresight.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - began, Foresight::kStopLimit);
}

TEST(Foresight, AHealthyProcessAndNoTraceAtAllSayNothing) {
  EXPECT_TRUE(resources_that_run_out(recorded(0)).empty());
  EXPECT_TRUE(verdicts_of("/nonexistent/trace").empty());
}

}  // namespace
}  // namespace kintsugi::monitoring

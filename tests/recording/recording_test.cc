// What becomes of daemons that are sampled: rows with all that is known, restarts, daemons that do not answer, full disks.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/http/http_server.h"
#include "common/log/log.h"
#include "common/metrics/metrics.h"
#include "common/runtime/production/run.h"
#include "monitoring/recording/sampler.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulation/runtime/simulation.h"

namespace kintsugi::recording {
namespace {

namespace fs = std::filesystem;
using metric_trace::Trace;
using std::chrono::seconds;

/// The pages of a daemon, on a thread of their own.
class FakeDaemon {
 public:
  /// With `deletes` its first execution of chunkserver.delete is open in two samples, and has ended in the third.
  explicit FakeDaemon(bool deletes = false) : http_(loop_.runtime()) {
    metrics_.counter("kintsugi_calls_total", "Calls.", {}, [this] { return calls += 10.0; });
    metrics_.gauge("kintsugi_free", "Free.", {{"disk", "a b"}}, [] { return 0.5; });
    metrics_.sample_regions([this, deletes](std::string& lines) {
      ended += 5;
      const bool deleted = ended > 10;
      lines += fmt::format("{}chunkserver.write=2\n{}chunkserver.read=3 chunkserver.write={}\n",
                           deletes && !deleted ? "chunkserver.delete=1 " : "",
                           deletes && deleted ? "chunkserver.delete=1 " : "", ended);
    });
    http_.handle("/debug/sample/names", [this](std::string_view) {
      return http::Response{.body = "# pid " + std::to_string(pid) + "\n" + metrics_.sample_names()};
    });
    http_.handle("/debug/sample", [this](std::string_view) {
      if (hangs) std::this_thread::sleep_for(seconds(1));
      ++samples;
      return http::Response{.body = metrics_.sample_values()};
    });
    EXPECT_TRUE(http_.start({"127.0.0.1", 0}).ok());
    endpoint = http_.local_endpoint();
    thread_.emplace(loop_);
  }
  ~FakeDaemon() {
    runtime::run_on(loop_, [](http::HttpServer& http) -> asio::awaitable<void> {
      http.stop();
      co_return;
    }(http_));
  }
  Target target(const std::string& name) const {
    return {.name = name, .process = 1, .build_id = "b1", .pid = pid, .is_local = true, .page = endpoint};
  }

  uint32_t pid = static_cast<uint32_t>(::getpid());
  double calls = 0;
  double ended = 0;  ///< executions of chunkserver.write: five more in each sample
  std::atomic<bool> hangs = false;
  std::atomic<int> samples = 0;
  runtime::Endpoint endpoint;

 private:
  runtime::ProductionRuntime loop_;
  metrics::Metrics metrics_;
  http::HttpServer http_;
  std::optional<runtime::LoopThread> thread_;
};

class Recorded : public testing::Test {
 protected:
  Recorded() {
    std::string name = (fs::temp_directory_path() / "recording_test.XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~Recorded() override {
    log::set_sink({});
    fs::remove_all(directory_);
  }
  RecordingOptions options(Duration period = std::chrono::milliseconds(200)) const {
    return {.keep = {.directory = directory_ + "/metrics"}, .period = period, .host = "here"};
  }
  void tick(Recording& recording, int times = 1) {
    for (int i = 0; i < times; ++i)
      runtime::run_on(loop_, recording.tick());
  }
  Trace trace() const {
    auto read = metric_trace::read_trace(directory_ + "/metrics");
    EXPECT_TRUE(read) << read.error();
    return read ? std::move(*read) : Trace();
  }
  /// The values of a metric, row by row.
  static std::vector<double> column(const Trace& trace, const std::string& source,
                                    const std::string& metric) {
    for (size_t i = 0; i < trace.header.metrics.size(); ++i)
      if (trace.header.metrics[i].name == metric &&
          trace.header.sources[trace.header.metrics[i].source].name == source) {
        std::vector<double> values;
        for (const auto& row : trace.rows)
          values.push_back(row.values[i]);
        return values;
      }
    ADD_FAILURE() << "no metric " << metric << " of " << source;
    return {};
  }

  runtime::ProductionRuntime loop_;
  std::string directory_;
};

TEST_F(Recorded, ARowHasWhatTheKernelAndTheDaemonItselfSay) {
  FakeDaemon daemon;
  Recording recording(loop_.runtime(), options());
  recording.set_targets({daemon.target("chunkserver-1")});
  tick(recording, 3);
  const Trace trace = this->trace();
  ASSERT_EQ(trace.rows.size(), 3u);
  EXPECT_EQ(trace.header.sources[0].build_id, "b1");
  EXPECT_THAT(column(trace, "chunkserver-1", "kintsugi_calls_total"), testing::ElementsAre(10, 20, 30));
  EXPECT_THAT(column(trace, "chunkserver-1", "kintsugi_free{disk=\"a b\"}"), testing::Each(0.5));
  EXPECT_GT(column(trace, "chunkserver-1", "rss")[2], 1 << 20) << "it is this process";
  const auto fds = std::ranges::find(trace.header.metrics, "fds", &metric_trace::Metric::name);
  ASSERT_NE(fds, trace.header.metrics.end());
  EXPECT_GT(fds->limit, 100) << "RLIMIT_NOFILE";
  ASSERT_EQ(trace.header.regions.size(), 2u);
  EXPECT_EQ(trace.header.regions[1].name, "chunkserver.write");
  EXPECT_EQ(trace.rows[2].activity, (std::vector<metric_trace::RegionActivity>{{1, 2, 5}}))
      << "none of the other region has ended since";
  EXPECT_EQ(trace.rows[0].activity, (std::vector<metric_trace::RegionActivity>{{1, 2, 0}}))
      << "nobody knows what ended since when";
  EXPECT_EQ(trace.rows[0].restarts.size(), 1u) << "nothing before it counts";
  EXPECT_TRUE(trace.rows[1].restarts.empty());
}

TEST_F(Recorded, TheFirstExecutionOfARegionCounts) {
  FakeDaemon daemon(/*deletes=*/true);
  Recording recording(loop_.runtime(), options());
  recording.set_targets({daemon.target("chunkserver-1")});
  tick(recording, 4);
  const Trace trace = this->trace();
  ASSERT_EQ(trace.header.regions[0].name, "chunkserver.delete");
  const auto of_delete = [&](size_t row) { return trace.rows[row].activity.at(0); };
  EXPECT_EQ(of_delete(1), (metric_trace::RegionActivity{.region = 0, .open = 1, .ended = 0}));
  EXPECT_EQ(of_delete(2), (metric_trace::RegionActivity{.region = 0, .open = 0, .ended = 1}));
  EXPECT_EQ(of_delete(3).region, 2U) << "none of it since";
}

double limit_of_descriptors(SampledDaemon& daemon) {
  metric_trace::Header header;
  daemon.describe(header);
  const auto fds = std::ranges::find(header.metrics, "fds", &metric_trace::Metric::name);
  return fds == header.metrics.end() ? metric_trace::kMissing : fds->limit;
}

TEST_F(Recorded, ALimitThatChangesWhileTheProcessRunsIsNoticed) {
  SampledDaemon daemon(loop_.runtime(), {.name = "chunkserver-1",
                                         .process = 1,
                                         .build_id = {},
                                         .pid = static_cast<uint32_t>(::getpid()),
                                         .is_local = true,
                                         .page = {}});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(limit_of_descriptors(daemon), static_cast<double>(before.rlim_cur));
  const rlimit lower{.rlim_cur = before.rlim_cur - 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  for (size_t i = 0; i < SampledDaemon::kLimitEvery; ++i)
    daemon.sample_process();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(daemon.has_more()) << "the columns have to be made anew";
  EXPECT_EQ(limit_of_descriptors(daemon), static_cast<double>(lower.rlim_cur));
}

TEST_F(Recorded, AnotherProcessOfTheNameBeginsASegmentAndTheRowsBetweenAreMissingValues) {
  auto daemon = std::make_unique<FakeDaemon>();
  Recording recording(loop_.runtime(), options());
  Target target = daemon->target("chunkserver-1");
  recording.set_targets({target});
  tick(recording, 2);
  daemon.reset();
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  target.pid = static_cast<uint32_t>(gone);  // a process that has ended
  recording.set_targets({target});
  tick(recording);
  FakeDaemon next;
  target = next.target("chunkserver-1");
  target.process = 2;
  target.build_id = "b2";
  recording.set_targets({target});
  tick(recording, 2);
  const Trace trace = this->trace();
  ASSERT_EQ(trace.rows.size(), 5u);
  const auto calls = column(trace, "chunkserver-1", "kintsugi_calls_total");
  EXPECT_TRUE(std::isnan(calls[2]));
  EXPECT_TRUE(std::isnan(column(trace, "chunkserver-1", "rss")[2]));
  EXPECT_EQ(calls[3], 10);
  ASSERT_EQ(trace.rows[3].restarts.size(), 1u);
  EXPECT_EQ(trace.rows[3].restarts[0].build_id, "b2");
  EXPECT_TRUE(trace.rows[4].restarts.empty());
}

/// The names of the sources that have restarted in a row.
std::vector<std::string> restarted(const Trace& trace, size_t row) {
  std::vector<std::string> names;
  for (const metric_trace::Restart& restart : trace.rows.at(row).restarts)
    names.push_back(trace.header.sources.at(restart.source).name);
  return names;
}

TEST_F(Recorded, AMonitorThatBeginsAnewGoesOnWithTheProcessesThatItKnew) {
  FakeDaemon one, two;
  const Target stays = one.target("chunkserver-1");
  Target changes = two.target("chunkserver-2");
  {
    Recording first(loop_.runtime(), options());
    first.set_targets({stays, changes});
    tick(first, 2);
    changes.process = 2;
    first.set_targets({stays, changes});
    tick(first, 2);
  }
  Recording second(loop_.runtime(), options());
  second.set_targets({changes});  // it hears of one after the other
  tick(second);
  second.set_targets({stays, changes});
  tick(second);
  changes.process = 3;
  second.set_targets({stays, changes});
  tick(second);
  const Trace trace = this->trace();
  ASSERT_EQ(trace.rows.size(), 7u);
  EXPECT_THAT(restarted(trace, 0), testing::ElementsAre("chunkserver-1", "chunkserver-2"));
  EXPECT_THAT(restarted(trace, 2), testing::ElementsAre("chunkserver-2"));
  for (const size_t row : {1, 3, 4, 5})
    EXPECT_TRUE(restarted(trace, row).empty()) << row;
  EXPECT_THAT(restarted(trace, 6), testing::ElementsAre("chunkserver-2"));
}

TEST_F(Recorded, WhoWasOutOfSightForAWhileIsTheSameProcess) {
  FakeDaemon one, two;
  Recording recording(loop_.runtime(), options());
  for (const bool both : {true, false, true}) {
    recording.set_targets(both ? std::vector{one.target("a"), two.target("b")}
                               : std::vector{one.target("a")});
    tick(recording);
  }
  EXPECT_TRUE(trace().rows.at(2).restarts.empty());
}

TEST_F(Recorded, ADaemonThatDoesNotAnswerHoldsNobodyUp) {
  FakeDaemon well, hung;
  hung.hangs = true;
  Recording recording(loop_.runtime(), options());
  recording.set_targets({well.target("well"), hung.target("hung")});
  const TimePoint began = loop_.runtime().clock.now();
  tick(recording, 3);
  EXPECT_LT(loop_.runtime().clock.now() - began, seconds(1))
      << "half a period is waited once, then it is left alone";
  const Trace trace = this->trace();
  ASSERT_EQ(trace.rows.size(), 3u);
  EXPECT_EQ(column(trace, "well", "kintsugi_calls_total")[2], 30);
  EXPECT_GT(column(trace, "hung", "rss")[2], 0) << "the kernel answers for it";
}

TEST_F(Recorded, ThePageOfAnotherProcessIsRefused) {
  FakeDaemon daemon;
  Target target = daemon.target("chunkserver-1");
  daemon.pid += 1;
  Recording recording(loop_.runtime(), options());
  recording.set_targets({target});
  tick(recording, 2);
  EXPECT_EQ(daemon.samples, 0);
  for (const auto& metric : trace().header.metrics)
    EXPECT_FALSE(metric.name.starts_with("kintsugi_"));
}

TEST_F(Recorded, MetricsOfADaemonThatComesLaterAreThereAtOnce) {
  FakeDaemon first, second;
  Recording recording(loop_.runtime(), options());
  recording.set_targets({first.target("a")});
  tick(recording, 2);
  recording.set_targets({first.target("a"), second.target("b")});
  tick(recording, 1);
  const auto calls = column(trace(), "b", "kintsugi_calls_total");
  EXPECT_TRUE(std::isnan(calls[1]));
  EXPECT_EQ(calls[2], 10);
  EXPECT_EQ(column(trace(), "a", "kintsugi_calls_total")[2], 30);
}

TEST_F(Recorded, NobodyToSampleIsNoRow) {
  Recording recording(loop_.runtime(), options());
  tick(recording, 2);
  recording.set_targets(
      {{.name = "far", .process = 1, .build_id = "", .page = runtime::Endpoint{"127.0.0.1", 1}}});
  tick(recording, 2);
  EXPECT_EQ(recording.state().rows, 0u);
  EXPECT_TRUE(recording.state().stopped.empty());
}

TEST_F(Recorded, AFullDiskStopsTheRecordingWithOneWarning) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may mount a file system of a limited size";
  const std::string small = directory_ + "/metrics";
  fs::create_directory(small);
  ASSERT_EQ(::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=64k"), 0);
  std::vector<std::string> warnings;
  log::set_sink([&](log::Level level, std::string_view line) {
    if (level == log::Level::kWarning) warnings.emplace_back(line);
  });
  {
    FakeDaemon daemon;
    Recording recording(loop_.runtime(), options());
    recording.set_targets({daemon.target("chunkserver-1")});
    for (int i = 0; i < 1000 && recording.state().stopped.empty(); ++i)
      tick(recording);
    EXPECT_FALSE(recording.state().stopped.empty());
    const uint64_t rows = recording.state().rows;
    EXPECT_GT(rows, 10u);
    const int asked = daemon.samples;
    tick(recording, 5);
    EXPECT_EQ(daemon.samples, asked) << "nobody is bothered for what cannot be kept";
    EXPECT_EQ(recording.state().missed_rows, 6u);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], testing::HasSubstr("metrics are not recorded"));
    EXPECT_EQ(trace().rows.size(), rows) << "what was kept is there";
  }
  EXPECT_EQ(::umount2(small.c_str(), MNT_DETACH), 0);
}

TEST_F(Recorded, GoesOnWhenTheDiskTakesRowsAgain) {
  simulation::Simulation simulation(1);
  simulation::SimNode node(simulation, "10.0.0.1");
  std::ofstream(directory_ + "/metrics") << "no directory";
  Recording recording(node.runtime(), options());
  Target itself{.name = "itself", .process = 1, .build_id = "", .page = {}};
  itself.pid = static_cast<uint32_t>(::getpid());
  itself.is_local = true;
  recording.set_targets({itself});
  simulation.run(recording.tick());
  EXPECT_FALSE(recording.state().stopped.empty());
  fs::remove(directory_ + "/metrics");
  simulation.run_for(Recording::kAgain - seconds(1));
  simulation.run(recording.tick());
  EXPECT_EQ(recording.state().rows, 0u) << "it is not tried all the time";
  simulation.run_for(seconds(1));
  simulation.run(recording.tick());
  EXPECT_EQ(recording.state().rows, 1u);
  EXPECT_TRUE(recording.state().stopped.empty());
  EXPECT_EQ(trace().rows.size(), 1u);
}

TEST_F(Recorded, TheSamplerKeepsItsPeriodAndStopsAtOnce) {
  FakeDaemon daemon;
  Sampler sampler(options(std::chrono::milliseconds(50)));
  ASSERT_TRUE(sampler.start().ok());
  sampler.set_targets({daemon.target("chunkserver-1")});
  while (sampler.state().recording.rows < 20)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_GT(sampler.state().processor_time, Duration::zero());
  const auto began = std::chrono::steady_clock::now();
  sampler.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(1));
  const Trace trace = this->trace();
  ASSERT_GE(trace.rows.size(), 20u);
  // Rows lie at their times; one that came too late is not there.
  for (size_t i = 1; i < trace.rows.size(); ++i) {
    const double periods = static_cast<double>(trace.rows[i].t_ns - trace.rows[i - 1].t_ns) / 50e6;
    EXPECT_GT(periods, 0.4);
  }
}

TEST_F(Recorded, ASamplerThatGetsNoDescriptorsSaysSoOnceAndBeginsAnew) {
  std::atomic<int> warnings = 0;
  log::set_sink([&](log::Level level, std::string_view) { warnings += level == log::Level::kWarning; });
  FakeDaemon daemon;
  Sampler sampler(options(std::chrono::milliseconds(50)));
  sampler.set_targets({daemon.target("chunkserver-1")});
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 3, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  ASSERT_TRUE(sampler.start().ok());
  while (sampler.state().recording.stopped.empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  while (sampler.state().recording.rows < 3)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(sampler.state().recording.stopped.empty());
  EXPECT_GE(sampler.state().recording.missed_rows, 1u);
  EXPECT_GE(warnings, 1);
  EXPECT_LE(warnings, 2) << "the file and the sampler itself may each say so, but not again and again";
  sampler.stop();
}

TEST_F(Recorded, ASamplerThatFailsStopsAtOnce) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{.rlim_cur = 3, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  log::set_sink([](log::Level, std::string_view) {});
  Sampler sampler(options());
  ASSERT_TRUE(sampler.start().ok());
  while (sampler.state().recording.stopped.empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto began = std::chrono::steady_clock::now();
  sampler.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds(2));
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST_F(Recorded, ASamplerThatWasNeverStartedStops) {
  Sampler sampler(options());
  sampler.stop();
  EXPECT_FALSE(fs::exists(directory_ + "/metrics"));
}

}  // namespace
}  // namespace kintsugi::recording

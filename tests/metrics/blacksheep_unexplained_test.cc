// What the log explains of the machine's work, and the machine's work of the log, on servers that are made up.
#include <functional>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "monitoring/metrics/blacksheep/unexplained.h"
#include "monitoring/metrics/trace/least_squares.h"
#include "tests/metrics/trace_rig.h"

namespace kintsugi::blacksheep {
namespace {

using metric_trace::kSecond;

constexpr int64_t kBegan = 1'795'800'000 * kSecond;
constexpr size_t kServers = 5, kSick = 2;
constexpr std::chrono::seconds kLogPeriod{1};
constexpr double kMegabyte = 1e6;
const std::vector<std::string> kMetrics{"cpu_ns",     "minflt",     "run_delay_ns", "voluntary_ctxt_switches",
                                        "read_bytes", "write_bytes"};
const std::vector<std::string> kStates{"read_chunk", "write_chunk"};

/// What a server does in one second. An execution takes 20 ms unless it is said otherwise.
struct Second {
  size_t reads = 0, writes = 0, repairs = 0;
  double lasts = 0.02;                          ///< seconds
  bool hangs = false;                           ///< executions begin, do no work and never end
  size_t waits = 0;                             ///< executions that begin to wait for a server that hangs
  bool fails = false;                           ///< executions end without having worked
  bool stopped = false;                         ///< nothing is done or logged
  bool begins = false;                          ///< the process begins anew
  double processor = 0, faults = 0, delay = 0;  ///< more than its executions cost
};
using FaultAt = std::function<void(size_t server, size_t second, Second& does)>;

/// A server's counters and its log.
class Server {
 public:
  Server(size_t number, uint64_t seed) : draws_(seed), number_(number) {
    trace_.header.sources = {{.name = fmt::format("chunkserver-{}", number), .build_id = "b1"}};
    for (const std::string& metric : kMetrics)
      trace_.header.metrics.push_back({.name = metric, .kind = metric_trace::Kind::kCounter, .source = 0});
    counters_.assign(kMetrics.size(), 0);
    say(kBegan, "begin pid=1");
  }

  void live(size_t second, double load, const FaultAt& fault) {
    Second does{.reads = times(load), .writes = times(load / 2)};
    if (fault) fault(number_ - 1, second, does);
    const int64_t t_ns = kBegan + static_cast<int64_t>(second) * kSecond;
    if (does.begins) begin(t_ns);
    metric_trace::Row row{.t_ns = t_ns + kSecond, .values = {}, .activity = {}, .restarts = {}};
    if (does.begins) row.restarts = {{0, "b1"}};
    if (!does.stopped) {
      log(t_ns, does);
      work(does);
    }
    row.values = counters_;
    trace_.rows.push_back(std::move(row));
  }

  metric_trace::Series series() const { return metric_trace::series_of(trace_, 0); }
  States states() const {
    StateReader reader(kLogPeriod);
    reader.feed(text_);
    return reader.states();
  }

 private:
  size_t times(double mean) {
    return static_cast<size_t>(std::max(0.0, mean + std::sqrt(mean) * draws_.normal() + 0.5));
  }
  double about(double value) { return value * (1 + 0.1 * draws_.normal()); }

  void say(int64_t t_ns, const std::string& what) {
    text_ += fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}+0000 activity {}\n",
                         fmt::gmtime(static_cast<std::time_t>(t_ns / kSecond)), t_ns % kSecond / 1000, what);
  }
  void execute(int64_t t_ns, const std::string& state, size_t count, const Second& does, bool ends) {
    for (size_t i = 0; i < count; ++i) {
      const std::string name = fmt::format("{} e{}", state, ++executions_);
      say(t_ns, "start " + name);
      if (ends) ending_.emplace_back(t_ns + static_cast<int64_t>(does.lasts * kSecond), name);
    }
  }
  void log(int64_t t_ns, const Second& does) {
    execute(t_ns, "read_chunk", does.reads, does, !does.hangs);
    execute(t_ns, "write_chunk", does.writes, does, !does.hangs);
    execute(t_ns, "repair_chunk", does.repairs, does, true);
    execute(t_ns, "read_chunk", does.waits, does, false);
    std::ranges::sort(ending_);
    std::erase_if(ending_, [&](const auto& each) {
      if (each.first >= t_ns + kSecond) return false;
      say(each.first, "stop " + each.second + " ok");
      return true;
    });
  }
  void work(const Second& does) {
    const double reads = does.hangs || does.fails ? 0 : static_cast<double>(does.reads),
                 writes = does.hangs || does.fails ? 0 : static_cast<double>(does.writes);
    const double repairs = static_cast<double>(does.repairs);
    const std::vector<double> more{1e6 + 1e6 * reads + 2e6 * writes + does.processor,
                                   does.faults + std::max(0.0, 5 + 5 * draws_.normal()),
                                   1e6 + does.delay,
                                   20 + 4 * reads + 6 * writes,
                                   (reads + 4 * repairs) * kMegabyte,
                                   (writes + repairs) * kMegabyte};
    for (size_t i = 0; i < more.size(); ++i)
      counters_[i] += std::max(0.0, about(more[i]));
  }
  void begin(int64_t t_ns) {
    counters_.assign(kMetrics.size(), 0);
    ending_.clear();
    say(t_ns, "begin pid=2");
  }

  Draws draws_;
  const size_t number_;
  metric_trace::Trace trace_;
  std::vector<double> counters_;
  std::string text_;
  size_t executions_ = 0;
  std::vector<std::pair<int64_t, std::string>> ending_;  ///< ends that come, with state and name
};

/// Servers under one load, which works and rests in turn.
std::vector<Work> servers(uint64_t seed, size_t seconds, const FaultAt& fault = nullptr, double factor = 1,
                          size_t count = kServers) {
  std::vector<Server> all;
  for (size_t i = 0; i < count; ++i)
    all.emplace_back(i + 1, seed * 100 + i);
  for (size_t second = 0; second < seconds; ++second)
    for (Server& server : all)
      server.live(second, second / 20 % 2 == 0 ? 3 * factor : 0.2 * factor, fault);
  std::vector<metric_trace::Series> series;
  for (const Server& server : all)
    series.push_back(server.series());
  const auto begins_ns = window_begins(series);
  std::vector<Work> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(work_of(series[i], all[i].states(), begins_ns, kStates, kMetrics));
  return out;
}

/// Nobody is accused, or it says who and of what.
void expect_nobody(const Usual& usual, const std::vector<Work>& now) {
  for (const Unexplained& each : usual.judge(now))
    ADD_FAILURE() << "server " << each.process << ": " << each.name << " is " << each.actual << " where "
                  << each.explained << " is explained, " << each.excess
                  << " times what is usual, until second " << (each.end_ns - kBegan) / kSecond;
}

const Usual& usual() {
  static const Usual learnt = Usual::learn(servers(1, 600), kStates, kMetrics).value();
  return learnt;
}

/// The sick one from second 30 on.
FaultAt at_the_sick(const std::function<void(Second&)>& change) {
  return [change](size_t server, size_t second, Second& does) {
    if (server == kSick && second >= 30) change(does);
  };
}

Unexplained accused(const std::vector<Work>& now) {
  const std::vector<Unexplained> found = usual().judge(now);
  EXPECT_FALSE(found.empty());
  if (found.empty()) return {};
  EXPECT_TRUE(found[0].accused);
  EXPECT_EQ(found[0].process, kSick) << found[0].name;
  EXPECT_GE(found[0].end_ns, kBegan + 30 * kSecond);
  for (const Unexplained& other : std::span(found).subspan(1))
    EXPECT_FALSE(other.accused) << "one process of a role is accused";
  return found[0];
}

TEST(BlackSheepUnexplained, HealthyServersUnderHalfToTwiceTheLoadAreNotAccused) {
  for (const double load : {0.5, 1.0, 2.0})
    for (uint64_t seed = 10; seed < 20; ++seed)
      expect_nobody(usual(), servers(seed, 100, nullptr, load));
}

TEST(BlackSheepUnexplained, ALeakIsWorkThatTheLogDoesNotTellOf) {
  const auto found = accused(servers(2, 100, at_the_sick([](Second& does) { does.faults = 1000; })));
  EXPECT_EQ(found.tells, Tells::kMoreWork);
  EXPECT_EQ(found.name, "minflt");
  EXPECT_GT(found.actual, found.explained + 500);
}

TEST(BlackSheepUnexplained, ALoopIsProcessorTimeThatTheLogDoesNotExplain) {
  const auto found = accused(servers(3, 100, at_the_sick([](Second& does) { does.processor = 5e8; })));
  EXPECT_EQ(found.tells, Tells::kMoreWork);
  EXPECT_EQ(found.name, "cpu_ns");
}

TEST(BlackSheepUnexplained, AHogLetsAServerWaitForItsProcessor) {
  EXPECT_EQ(accused(servers(4, 100, at_the_sick([](Second& does) { does.delay = 3e8; }))).name,
            "run_delay_ns");
}

TEST(BlackSheepUnexplained, AStoppedServerDoesLessThanOneThatIsAskedForNothing) {
  const auto found = accused(servers(5, 100, at_the_sick([](Second& does) { does.stopped = true; })));
  EXPECT_EQ(found.tells, Tells::kLessWork);
  EXPECT_EQ(found.name, "voluntary_ctxt_switches");
}

TEST(BlackSheepUnexplained, AServerThatHangsIsAccusedAndNotThoseThatWaitForIt) {
  const auto found = accused(servers(6, 100, [](size_t server, size_t second, Second& does) {
    if (second < 30) return;
    if (server == kSick)
      does.hangs = true;
    else
      does.waits = second % 10 == server ? 1 : 0;
  }));
  EXPECT_EQ(found.tells, Tells::kOpen);
  EXPECT_EQ(found.name, "read_chunk");
  EXPECT_GT(found.open_seconds, 100);
}

TEST(BlackSheepUnexplained, AHogIsAccusedAndNotThoseThatWaitForItsServerForLonger) {
  const auto found = accused(servers(33, 100, [](size_t server, size_t second, Second& does) {
    if (second < 30) return;
    if (server == kSick)
      does.delay = 3e8;
    else
      does.waits = server == 0 ? 1 : 0;
  }));
  EXPECT_EQ(found.name, "run_delay_ns") << "what the machine does is a process's own";
}

TEST(BlackSheepUnexplained, ASlowDiskKeepsExecutionsOpenThatDoNoMoreThanBefore) {
  const auto found = accused(servers(7, 100, at_the_sick([](Second& does) { does.lasts = 0.4; })));
  EXPECT_EQ(found.tells, Tells::kOpen);
}

TEST(BlackSheepUnexplained, ARestartAccusesNobody) {
  const auto now = servers(8, 100, [](size_t server, size_t second, Second& does) {
    if (server != kSick || second < 50 || second > 51) return;
    does.begins = second == 50;
    does.processor = 5e8;  // it reads what it has
    does.faults = 5000;
  });
  expect_nobody(usual(), now);
}

TEST(BlackSheepUnexplained, WhatAllDoAtOnceIsTheFaultOfNone) {
  const auto now = servers(9, 100, [](size_t, size_t second, Second& does) {
    if (second >= 30) does.processor = 5e8;
  });
  expect_nobody(usual(), now);
}

TEST(BlackSheepUnexplained, ExecutionsThatFailMayHaveDoneNothing) {
  expect_nobody(usual(),
                servers(32, 100, at_the_sick([](Second& does) { does.fails = true, does.lasts = 0.001; })));
}

TEST(BlackSheepUnexplained, StatesThatTheHealthyTimeDoesNotKnowMayCostAnything) {
  const auto now = servers(30, 100, [](size_t server, size_t second, Second& does) {
    if (server == kSick && second >= 30) does.repairs = 5;
  });
  expect_nobody(usual(), now);
}

TEST(BlackSheepUnexplained, SaysWhatItLacks) {
  const auto little = Usual::learn(servers(1, 90), kStates, kMetrics);
  ASSERT_FALSE(little);
  EXPECT_EQ(little.error().lack, Lack::kHealthyPast);
  EXPECT_EQ(little.error().need, kFewestWindows);
  EXPECT_EQ(Usual::learn(servers(1, 600, nullptr, 1, 3), kStates, kMetrics).error(),
            (NotEnough{Lack::kPeers, 3, 4}));
  EXPECT_EQ(Usual::learn(servers(1, 600), kStates, {}).error().lack, Lack::kMetrics);
  EXPECT_EQ((NotEnough{Lack::kPeers, 3, 4}).to_string(),
            "not enough data because there are 3 processes of its role, and 4 are needed");
}

TEST(BlackSheepUnexplained, ThreeServersOfFiveAreNotComparedWhileTwoAreGone) {
  auto now = servers(31, 100, at_the_sick([](Second& does) { does.processor = 5e8; }));
  now.resize(3);
  expect_nobody(usual(), now);
}

TEST(BlackSheepWork, AWindowHasWhatEndedWhatIsOpenAndWhatWasDone) {
  StateReader reader(kLogPeriod);
  reader.feed(
      "2026-11-28T00:00:00.500000+0000 activity start read_chunk a\n"
      "2026-11-28T00:00:01.500000+0000 activity stop read_chunk a ok\n"
      "2026-11-28T00:00:05.000000+0000 activity start read_chunk b\n"
      "2026-11-28T00:00:05.000000+0000 activity start repair_chunk c\n");
  const States states = reader.states();
  metric_trace::Trace trace =
      metric_trace::gauges({"cpu_ns"}, 41, [](size_t) { return std::vector<double>{7}; });
  for (metric_trace::Row& row : trace.rows)
    row.t_ns += states.begin_ns;
  const auto series = metric_trace::series_of(trace, 0);
  const auto begins_ns = window_begins(std::span(&series, 1));
  const Work work = work_of(series, states, begins_ns, {"read_chunk"}, {"cpu_ns"});
  const auto first =
      static_cast<Eigen::Index>(std::ranges::find(begins_ns, states.begin_ns) - begins_ns.begin());
  ASSERT_LT(first, static_cast<Eigen::Index>(work.windows()));
  EXPECT_DOUBLE_EQ(work.ended(first, 0), 0.1);
  EXPECT_NEAR(work.open(first, 0), (1 + 4) / 10.0, 1e-9)
      << "after its last line the log says nothing of an end";
  EXPECT_DOUBLE_EQ(work.done(first, 0), 7);
  EXPECT_TRUE(work.others[static_cast<size_t>(first)]) << "nobody asks about repair_chunk";
  EXPECT_DOUBLE_EQ(work.open(first + 10, 0), 1);
  EXPECT_TRUE(std::isnan(work.done(static_cast<Eigen::Index>(work.windows()) - 1, 0))) << "it is cut short";
}

TEST(BlackSheepCosts, AreThoseThatTheEffectIsMadeOfAndNeverBelowNothing) {
  Draws draws(1);
  Eigen::MatrixXd causes(400, 3);
  Eigen::VectorXd effect(400);
  for (Eigen::Index row = 0; row < 400; ++row) {
    causes.row(row) << draws.uniform(0, 5), draws.uniform(0, 5), draws.uniform(0, 5);
    effect[row] = 10 + 3 * causes(row, 0) + 0.5 * causes(row, 1) + 0.1 * draws.normal();
  }
  const Costs costs = Costs::learn(causes, effect);
  EXPECT_NEAR(costs.ground(), 10, 0.1);
  EXPECT_NEAR(costs.highest(), 3, 0.05);
  EXPECT_NEAR(costs.explained(Eigen::RowVector3d(1, 2, 3)), 14, 0.1);
  EXPECT_GT(costs.deviations(Eigen::RowVector3d(1, 2, 3), 15, 0), 5);
  EXPECT_NEAR(costs.deviations(Eigen::RowVector3d(1, 2, 3), 15, 1), 1, 0.2);
  // Of many executions each costs a little more or less.
  for (Eigen::Index row = 0; row < 400; ++row)
    effect[row] = 3 * causes(row, 0) + std::sqrt(causes(row, 0)) * draws.normal();
  const Costs scattered = Costs::learn(causes, effect);
  EXPECT_GT(scattered.deviations(Eigen::RowVector3d(0.1, 0, 0), 0.3 + 3, 0),
            2 * scattered.deviations(Eigen::RowVector3d(5, 0, 0), 15 + 3, 0));
  // More of the last one goes with less: a cost cannot be negative.
  effect -= 2 * causes.col(2);
  const Eigen::VectorXd above = effect.cwiseMax(0);
  const Eigen::VectorXd parts =
      metric_trace::least_squares_above_zero(causes.transpose() * causes, causes.transpose() * above);
  EXPECT_GE(parts.minCoeff(), 0);
}

}  // namespace
}  // namespace kintsugi::blacksheep

#include <functional>

#include <gtest/gtest.h>

#include "monitoring/metrics/rams/detector.h"
#include "monitoring/metrics/rams/faithful.h"
#include "tests/metrics/trace_rig.h"

namespace kintsugi::rams {
namespace {

using metric_trace::gauges;
using metric_trace::series_of;
using metric_trace::Trace;

const std::vector<std::string> kNames{"user_samples", "kernel_samples", "voluntary_ctxt_switches",
                                      "page_faults_user"};

/// Values of a row in the order of kNames, changed by a fault.
using Fault = std::function<void(size_t row, std::vector<double>&)>;

/// A process under a load that wanders; its noise follows itself, as it does in reality.
Trace run(uint64_t seed, size_t rows, const Fault& fault = [](size_t, std::vector<double>&) {}) {
  Draws draws(seed);
  double load = 0, slow = 0;
  return gauges(kNames, rows, [&](size_t row) {
    load = 0.9 * load + draws.normal();
    slow = 0.5 * slow + draws.normal();
    const double app = std::max(10.0, 300 + 50 * load);
    std::vector<double> values{app, 0.5 * app + 8 * slow, 40 + 10 * app + 150 * draws.normal(),
                               5 + 0.02 * app + std::abs(2 * draws.normal())};
    fault(row, values);
    return values;
  });
}

Inputs inputs(const Trace& trace) {
  const auto out = inputs_of(series_of(trace, 0));
  EXPECT_TRUE(out) << out.error().to_string();
  return *out;
}

Fault spins_from(size_t first, size_t end = SIZE_MAX) {
  return [=](size_t row, std::vector<double>& values) {
    if (row >= first && row < end) values[0] += 900;
  };
}

Fault leaks_from(size_t first) {
  return [=](size_t row, std::vector<double>& values) {
    if (row >= first) values[3] += 256;
  };
}

const Calibration& calibration() {
  static const Calibration made = [] {
    std::vector<Inputs> healthy;
    for (uint64_t seed = 100; seed < 120; ++seed)
      healthy.push_back(inputs(run(seed, 400)));
    return calibrate("chunkserver", healthy).value();
  }();
  return made;
}

bool accused(const std::vector<Verdict>& verdicts) {
  return std::ranges::any_of(verdicts, [](const Verdict& verdict) { return verdict.state == State::kSick; });
}

TEST(RamsDetector, HealthyNodesAreRarelyAccusedWhereTheTextsFormAccusesMost) {
  size_t ours = 0, text = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Inputs healthy = inputs(run(seed, 300));
    ours += accused(judge(healthy, calibration())) ? 1 : 0;
    const auto windows = faithful_windows(healthy, 0);
    text += std::ranges::any_of(windows, [](const auto& w) { return w.breusch_godfrey.p < 0.01; });
  }
  EXPECT_LE(ours, 5u);
  EXPECT_GE(text, 30u);
}

TEST(RamsDetector, AFaultThatFillsTheWholeWindowStillStands) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto verdicts = judge(inputs(run(seed, 600, spins_from(200))), calibration());
    const Verdict& last = verdicts.back();
    ASSERT_EQ(last.state, State::kSick) << seed;
    EXPECT_LT(last.alarm->since_ns, 230 * metric_trace::kSecond) << seed;
    EXPECT_GT(last.alarm->score.surprise, last.alarm->threshold);
    EXPECT_GT(last.alarm->score.reference_values, 1000u);
  }
}

TEST(RamsDetector, AnAlarmEndsWhenTheNodeIsBackOnItsLine) {
  const auto verdicts = judge(inputs(run(3, 600, spins_from(200, 300))), calibration());
  EXPECT_TRUE(accused(verdicts));
  const auto end = [&](int64_t second) {
    return std::ranges::find_if(verdicts,
                                [&](const Verdict& v) { return v.t_ns >= second * metric_trace::kSecond; });
  };
  EXPECT_EQ(end(290)->state, State::kSick);
  EXPECT_EQ(end(340)->state, State::kSick) << "60 samples on the line are needed";
  EXPECT_NE(verdicts.back().state, State::kSick);
}

TEST(RamsDetector, ALeakShowsInThePageFaults) {
  size_t found = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const auto verdicts = judge(inputs(run(seed, 300, leaks_from(200))), calibration());
    found += verdicts.back().state == State::kSick &&
                     verdicts.back().alarm->score.key.channel == "page_faults_user"
                 ? 1
                 : 0;
  }
  EXPECT_GE(found, 9u);
}

TEST(RamsDetector, AProcessThatDoesNotRunIsHandedToTheDetectorOfHangs) {
  Trace trace = run(1, 220, [](size_t row, std::vector<double>& values) {
    if (row >= 200) values = {0, 0, 0, 0};
  });
  trace.header.regions = {{"chunkserver.read_chunk", 0}};
  for (size_t row = 200; row < 220; ++row)
    trace.rows[row].activity = {{0, 2}};
  const auto verdicts = judge(inputs(trace), calibration());
  EXPECT_EQ(verdicts.back().state, State::kBlocked);
  EXPECT_FALSE(accused(verdicts));
}

TEST(RamsDetector, ARestartKeepsAnAlarmAndAnotherBuildDoesNot) {
  for (const bool other_build : {false, true}) {
    Trace trace = run(5, 400, spins_from(200));
    trace.rows[300].restarts = {{0, other_build ? "b2" : "b1"}};
    const auto verdicts = judge(inputs(trace), calibration());
    const auto later = std::ranges::find_if(
        verdicts, [](const Verdict& v) { return v.t_ns >= 310 * metric_trace::kSecond; });
    EXPECT_EQ(later->state, other_build ? State::kNoAnswer : State::kSick);
  }
}

TEST(RamsDetector, SaysWhyItHasNoAnswer) {
  const auto lack_of = [](const Trace& trace) {
    return judge(inputs(trace), calibration()).back().lack->lack;
  };
  EXPECT_EQ(lack_of(run(1, 20)), Lack::kHealthyPast);
  EXPECT_EQ(lack_of(run(1, 200, [](size_t, std::vector<double>& values) { values = {300, 150, 3000, 5}; })),
            Lack::kMovingLoad);
  EXPECT_TRUE(judge(inputs(run(1, 3)), calibration()).empty());
  EXPECT_EQ(lack_of(run(1, 200,
                        [](size_t row, std::vector<double>& v) {
                          if (row % 5 != 0) v[0] = metric_trace::kMissing;
                        })),
            Lack::kHealthyPast);
  EXPECT_EQ(inputs_of(series_of(gauges({"rss"}, 10, [](size_t) { return std::vector<double>{1}; }), 0))
                .error()
                .lack,
            Lack::kMetrics);
  std::vector<Inputs> few(4, inputs(run(1, 200)));
  EXPECT_EQ(calibrate("chunkserver", few).error(), (NotEnough{Lack::kHealthyReference, 4, kFewestRuns}));
}

TEST(RamsDetector, WithoutPerfTheTimesOfProcAreAveragedAndTheOriginIsTold) {
  const Trace trace = gauges({"utime", "stime", "minflt", "user_samples"}, 101, [&](size_t row) {
    const auto x = static_cast<double>(row);
    return std::vector<double>{x, 2 * x, 1, metric_trace::kMissing};
  });
  const Inputs from_proc = inputs(trace);
  EXPECT_EQ(from_proc.origin, Origin::kProc);
  EXPECT_EQ(from_proc.period, std::chrono::seconds(10));
  EXPECT_EQ(from_proc.channels, (std::vector<std::string>{"stime", "minflt"}));
  ASSERT_EQ(from_proc.rows(), 10u);
  // Rows 1 to 10: the first row of a life gives no rates.
  EXPECT_DOUBLE_EQ(from_proc.app[0], 5.5);
  EXPECT_DOUBLE_EQ(from_proc.os(9, 0), 191);
  EXPECT_DOUBLE_EQ(from_proc.processors[0], 16.5);
  EXPECT_EQ(inputs(run(1, 10)).origin, Origin::kPerf);
}

TEST(RamsReference, TellsValuesBeyondAllHealthyOnesApart) {
  std::vector<double> healthy;
  for (int i = 1; i <= 100; ++i)
    healthy.push_back(i);
  const Reference reference(healthy);
  EXPECT_NEAR(reference.tail(50.5), 51.0 / 101, 1e-12);
  EXPECT_GT(reference.tail(100), reference.tail(200));
  EXPECT_GT(reference.tail(200), reference.tail(400));
  EXPECT_DOUBLE_EQ(reference.quantile(50.5), 0.5);
  EXPECT_DOUBLE_EQ(reference.quantile(1e9), 0.99) << "no finer quantile is known";
}

}  // namespace
}  // namespace kintsugi::rams

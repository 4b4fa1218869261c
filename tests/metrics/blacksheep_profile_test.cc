#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "monitoring/metrics/blacksheep/parting.h"
#include "tests/metrics/trace_rig.h"

namespace kintsugi::blacksheep {
namespace {

/// Changes a value of a run: of the metric or state of that name at that second.
using Fault = std::function<double(const std::string& name, size_t second, double value)>;

/// Ten minutes of a process whose two states change now and then, and whose processor and disk follow one of them each. Its
/// memory wanders for itself; "repairs" is what our own log tells once more.
Run run(uint64_t seed, const Fault& fault = [](const std::string&, size_t, double value) { return value; }) {
  Draws draws(seed);
  Run out{.metric_names = {"utime", "read_bytes", "rss"}, .state_names = {"partial_sum", "read_chunk"}};
  out.metrics.resize(3);
  out.states.resize(2);
  std::array<double, 2> level{2, 3};
  std::array<size_t, 2> until{0, 0};
  double memory = 0;
  for (size_t second = 0; second < 600; ++second) {
    for (size_t s = 0; s < 2; ++s) {
      if (second >= until[s]) {
        level[s] = level[s] > 5 ? draws.uniform(1, 2) : draws.uniform(8, 16);
        until[s] = second + 40 + draws.below(40);
      }
      out.states[s].push_back(
          fault(out.state_names[s], second, std::max(0.0, level[s] + 0.3 * draws.normal())));
    }
    memory = 0.98 * memory + draws.normal();
    out.metrics[0].push_back(fault("utime", second, std::max(0.0, 0.05 * level[0] + 0.02 * draws.normal())));
    out.metrics[1].push_back(
        fault("read_bytes", second, std::max(0.0, 1e6 * (level[1] + 0.4 * draws.normal()))));
    out.metrics[2].push_back(fault("rss", second, 100 + 10 * memory));
    out.t_ns.push_back(static_cast<int64_t>(second) * metric_trace::kSecond);
  }
  return out;
}

std::vector<Run> runs(uint64_t first, size_t count) {
  std::vector<Run> out;
  for (uint64_t seed = first; seed < first + count; ++seed)
    out.push_back(run(seed));
  return out;
}

const Profile& profile() {
  static const Profile learnt = learn("mixed", runs(1, 10)).value();
  return learnt;
}

const HealthyCounts& healthy() {
  static const HealthyCounts counts = count_healthy(profile(), runs(1, 10)).value();
  return counts;
}

/// How each pair agrees over all runs. The states of run i are those of run (i + shift) modulo the number of
/// runs: with a shift, a control that must be bad.
std::vector<Corroboration> evaluate(const Profile& profile, std::span<const Run> runs, size_t shift = 0) {
  std::vector<Corroboration> out;
  for (const Pair& pair : profile.pairs) {
    Corroboration& total = out.emplace_back();
    for (size_t i = 0; i < runs.size(); ++i) {
      const Run& run = runs[i];
      const auto own = changes_of(pair, run), others = changes_of(pair, runs[(i + shift) % runs.size()]);
      if (!own || !others) continue;
      total += corroborate(own->metric, others->state, run.instants(), profile.options.sigma(run.period));
    }
  }
  return out;
}

TEST(BlackSheepProfile, FindsThePairsThatChangeTogether) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const Pair& pair : profile().pairs)
    pairs.emplace_back(pair.metric, pair.state);
  EXPECT_EQ(pairs, (std::vector<std::pair<std::string, std::string>>{{"utime", "partial_sum"},
                                                                     {"read_bytes", "read_chunk"}}));
  EXPECT_EQ(profile().all_scores.size(), 6u);
  EXPECT_LT(profile().all_scores.front(), 0);
}

TEST(BlackSheepProfile, AStateThatOneProcessWasNeverInPairsForTheOthers) {
  auto some = runs(1, 10);
  some[3].state_names.pop_back();
  some[3].states.pop_back();
  for (double& value : some[3].metrics[1])
    value = 0;
  give_all_states(some);
  EXPECT_EQ(some[3].states[*some[3].state("read_chunk")], std::vector<double>(600, 0));
  bool reads = false;
  for (const Pair& pair : learn("mixed", some)->pairs)
    reads = reads || pair.state == "read_chunk";
  EXPECT_TRUE(reads);
}

TEST(BlackSheepProfile, HeldOutRunsScoreAboveNothingAndTheControlFarBelow) {
  const auto held_out = runs(100, 6);
  for (const Corroboration& score : evaluate(profile(), held_out)) {
    EXPECT_GT(score.normalised(), 0.3);
    EXPECT_GT(score.per_instant(), 0);
    EXPECT_GE(score.matches, 20u) << "silence is no score";
  }
  for (const Corroboration& score : evaluate(profile(), held_out, 1))
    EXPECT_LT(score.normalised(), -0.5);
}

TEST(BlackSheepProfile, HealthyRunsRarelyPart) {
  size_t accused = 0;
  for (const auto& held_out : runs(200, 20))
    accused += partings(profile(), healthy(), held_out).empty() ? 0 : 1;
  EXPECT_LE(accused, 4u);
}

TEST(BlackSheepProfile, WorkThatTheMachineDoesNotDoIsAStateAlone) {
  const auto found =
      partings(profile(), healthy(), run(300, [](const std::string& name, size_t second, double value) {
                 // Executions begin and never go on: twice in a minute.
                 return name == "partial_sum" && second >= 300 && second < 400
                            ? value + 60.0 * double(1 + (second - 300) / 12)
                            : value;
               }));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].culprit, (Culprit{Direction::kStateAlone, "partial_sum"}));
  EXPECT_EQ(found[0].resource, Resource::kProcessor);
  EXPECT_GE(found[0].begin_ns, 270 * metric_trace::kSecond);
  EXPECT_LE(found[0].end_ns, 430 * metric_trace::kSecond);
}

TEST(BlackSheepProfile, WorkThatNoLogTellsOfIsAMetricAlone) {
  const auto found = partings(
      profile(), healthy(), run(301, [](const std::string& name, size_t second, double value) {
        return name == "read_bytes" && second >= 300 && second < 400 && second / 12 % 2 == 0 ? value + 1e8
                                                                                             : value;
      }));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].culprit, (Culprit{Direction::kMetricAlone, "read_bytes"}));
  EXPECT_EQ(found[0].resource, Resource::kDisk);
  EXPECT_EQ(found[0].state, "read_chunk");
}

TEST(BlackSheepProfile, SaysWhatItLacks) {
  EXPECT_EQ(learn("mixed", runs(1, 4)).error(), (NotEnough{Lack::kHealthyReference, 4, kFolds}));
  auto constant = runs(1, 5);
  for (auto& run : constant) {
    for (auto& state : run.states)
      std::ranges::fill(state, 3);
  }
  EXPECT_EQ(learn("mixed", constant).error().lack, Lack::kStateChanges);
  auto none = runs(1, 5);
  for (auto& run : none)
    run.metric_names.clear(), run.metrics.clear();
  EXPECT_EQ(learn("mixed", none).error().lack, Lack::kMetrics);
  EXPECT_EQ(count_healthy(profile(), {}).error().lack, Lack::kHealthyReference);
}

TEST(BlackSheepProfile, ARunHasTheSystemsMetricsAtTheInstantsOfBoth) {
  const auto trace = metric_trace::gauges({"repairs_running", "utime"}, 20, [](size_t row) {
    return std::vector<double>{1, static_cast<double>(row)};
  });
  States states;
  states.names = {"repair"};
  states.begin_ns = 10 * metric_trace::kSecond;
  states.concurrency = Eigen::MatrixXd::Constant(5, 1, 2);
  states.instants = Eigen::MatrixXd::Constant(5, 1, 1);
  const auto both = run_of(metric_trace::series_of(trace, 0), states);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->metric_names, std::vector<std::string>{"utime"})
      << "our own metrics would agree with our own log";
  EXPECT_EQ(both->metrics[0], (std::vector<double>{10, 11, 12, 13, 14}));
  EXPECT_EQ(both->states[0], std::vector<double>(5, 3));
  states.begin_ns = 100 * metric_trace::kSecond;
  EXPECT_EQ(run_of(metric_trace::series_of(trace, 0), states).error().lack, Lack::kSamples);
}

}  // namespace
}  // namespace kintsugi::blacksheep

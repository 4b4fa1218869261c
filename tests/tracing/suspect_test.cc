// Which flow is the odd one.
#include <cmath>

#include "common/base/draws.h"
#include "tests/tracing/rig.h"
#include "tracing/anomaly/last_timestamp.h"
#include "tracing/anomaly/suspect_score.h"

namespace kintsugi::anomaly {
namespace {

using flow::kSecond;

enum : PathId { kWork, kIdle, kSched, kWrite };

Profile mix(std::initializer_list<std::pair<PathId, double>> shares) {
  Profile profile;
  for (const auto& [path, share] : shares)
    profile.push_back({Measure::kTime, path, share});
  return profile;
}

/// Six workers, a master that does other work, and one that hangs in write.
std::vector<Profile> with_master() {
  std::vector<Profile> trials;
  for (int i = 0; i < 6; ++i)
    trials.push_back(mix({{kWork, 0.9 + 0.001 * i}, {kIdle, 0.1 - 0.001 * i}}));
  trials.push_back(mix({{kIdle, 0.2}, {kSched, 0.8}}));
  trials.push_back(mix({{kIdle, 0.08}, {kWrite, 0.92}}));
  return trials;
}
constexpr size_t kMaster = 6, kBad = 7;

TEST(SuspectScore, AloneItFlagsTheMasterToo) {
  const auto scores = suspect_scores(with_master());
  ASSERT_TRUE(scores);
  EXPECT_EQ((*scores)[0].trial, kBad);
  EXPECT_NEAR((*scores)[0].score, 1.84, 1e-9);
  EXPECT_EQ((*scores)[1].trial, kMaster);
  EXPECT_NEAR((*scores)[1].score, 1.802, 1e-9);
  EXPECT_LE((*scores)[2].score, 0.004 + 1e-9);
}

TEST(SuspectScore, WithANormalRunItDoesNot) {
  const std::vector<Profile> normal{mix({{kIdle, 0.21}, {kSched, 0.79}}), mix({{kWork, 0.9}, {kIdle, 0.1}})};
  const auto scores = suspect_scores(with_master(), normal);
  ASSERT_TRUE(scores);
  EXPECT_EQ((*scores)[0].trial, kBad);
  EXPECT_NEAR((*scores)[0].score, 1.84, 1e-9);
  EXPECT_EQ((*scores)[1].trial, kMaster);
  EXPECT_NEAR((*scores)[1].score, 0.02, 1e-9);
  EXPECT_TRUE((*scores)[1].of_normal);
  EXPECT_EQ((*scores)[1].neighbour, 0u);
}

TEST(SuspectScore, TwoAlikeOutliersNeedAKAboveThem) {
  std::vector<Profile> trials(8, mix({{kWork, 1.0}}));
  trials.push_back(mix({{kWrite, 1.0}}));
  trials.push_back(mix({{kWrite, 1.0}}));
  EXPECT_EQ(suspect_scores(trials, {}, 1)->front().score, 0) << "each has the other";
  EXPECT_EQ(suspect_scores(trials)->front().score, 2) << "10 / 4 = 2 neighbours";
  EXPECT_EQ(suspect_scores(trials)->front().trial, 8u);
}

TEST(SuspectScore, OneThatIsAloneHasNoScoreAndManyAreRefused) {
  EXPECT_TRUE(std::isinf(suspect_scores(std::vector<Profile>{mix({{kWork, 1.0}})})->front().score));
  EXPECT_TRUE(suspect_scores({})->empty());
  EXPECT_EQ(suspect_scores(std::vector<Profile>(kMostCompared + 1)).error().code(), Code::kLimitExceeded);
}

TEST(Rank, NamesTheOutlierAndWhatIsUsual) {
  const auto ranking = rank(with_master(), std::vector<Profile>{mix({{kIdle, 0.21}, {kSched, 0.79}})});
  ASSERT_TRUE(ranking);
  EXPECT_EQ(ranking->answer, Answer::kOutlier);
  EXPECT_EQ(ranking->outliers, 1u);
  EXPECT_EQ(ranking->scores.front().trial, kBad);
}

TEST(Rank, WhenAllAreAffectedThereIsNoOutlier) {
  Draws draws(5);
  for (int run = 0; run < 10; ++run) {
    std::vector<Profile> slow;
    for (int i = 0; i < 12; ++i) {
      const double share = draws.uniform(0.8, 0.84);
      slow.push_back(mix({{kWork, 1 - share}, {kWrite, share}}));
    }
    EXPECT_EQ(rank(slow)->answer, Answer::kNoOutlier);
  }
}

TEST(Rank, OneRequestIsJudgedByThoseThatAreKnownToBeNormal) {
  std::vector<Profile> normal;
  for (int i = 0; i < 5; ++i)
    normal.push_back(mix({{kWork, 0.9 + 0.01 * i}, {kIdle, 0.1 - 0.01 * i}}));
  EXPECT_EQ(rank(std::vector<Profile>{mix({{kWork, 0.92}, {kIdle, 0.08}})}, normal)->answer,
            Answer::kNoOutlier);
  EXPECT_EQ(rank(std::vector<Profile>{mix({{kWork, 0.3}, {kWrite, 0.7}})}, normal)->answer, Answer::kOutlier);
  EXPECT_EQ(rank(std::vector<Profile>{mix({{kWork, 0.3}, {kWrite, 0.7}})})->answer, Answer::kTooFew);
}

TEST(SuspectScore, AmongVeryManyOnlyAPartAreNeighbours) {
  Draws draws(1);
  std::vector<Profile> trials;
  for (size_t i = 0; i < 10'000; ++i) {
    const double share = draws.uniform(0.1, 0.2);
    trials.push_back(mix({{kWork, 1 - share}, {kIdle, share}}));
  }
  trials[7'777] = mix({{kWork, 0.5}, {kWrite, 0.5}});
  const auto ranking = rank(trials);
  ASSERT_TRUE(ranking);
  EXPECT_EQ(ranking->scores.size(), trials.size());
  EXPECT_EQ(ranking->outliers, 1u);
  EXPECT_EQ(ranking->scores.front().trial, 7'777u);
}

std::vector<LastRecord> records(const std::vector<double>& seconds) {
  std::vector<LastRecord> records;
  for (double at : seconds)
    records.push_back({.process = static_cast<uint32_t>(records.size()),
                       .last_ns = static_cast<int64_t>(at * kSecond),
                       .longest_gap_ns = kSecond / 10});
  return records;
}

TEST(EarliestLast, OneThatFellSilentLongBeforeIsNamed) {
  std::vector<double> ends(128, 1000);
  ends.push_back(480);
  const EarliestLast found = earliest_last(records(ends), 1'000'000);
  EXPECT_EQ(found.silence, Silence::kFailStop);
  EXPECT_EQ(found.earliest, 128u);
  EXPECT_EQ(found.before_ns, 520 * kSecond);
}

TEST(EarliestLast, ASpreadWithoutAGapIsNoFailStop) {
  std::vector<double> ends;
  for (int i = 0; i < 129; ++i)
    ends.push_back(1000 + 20.0 * i / 129);
  EXPECT_EQ(earliest_last(records(ends), 1'000'000).silence, Silence::kNotFailStop);
}

/// The largest score of n samples in standard deviations of all is (n - 1) / sqrt(n): 3 is never reached with ten.
TEST(EarliestLast, AFewProcessesAreEnough) {
  const std::pair<int, double> largest[] = {{5, 1.79},  {8, 2.47},  {10, 2.85},
                                            {11, 3.02}, {16, 3.75}, {129, 11.27}};
  for (const auto& [n, deviations] : largest) {
    std::vector<double> ends(static_cast<size_t>(n - 1), 0);
    ends.push_back(-1);
    double mean = -1.0 / n, sum = 0;
    for (double end : ends)
      sum += (end - mean) * (end - mean);
    EXPECT_NEAR((mean + 1) / std::sqrt(sum / (n - 1)), deviations, 0.005) << n;
  }
  for (size_t n : {3, 5, 10, 12}) {
    std::vector<double> ends;
    for (size_t i = 1; i < n; ++i)
      ends.push_back(100 + 0.01 * static_cast<double>(i));
    ends.push_back(90);
    EXPECT_EQ(earliest_last(records(ends), 1'000'000).silence, Silence::kFailStop) << n;
  }
  EXPECT_EQ(earliest_last(records({1, 100}), 1).silence, Silence::kTooFew);
}

TEST(EarliestLast, ClocksThatDisagreeAccuseNobody) {
  EXPECT_EQ(earliest_last(records({100, 100, 100, 98}), kSecond).silence, Silence::kNotFailStop);
  EXPECT_EQ(earliest_last(records({100, 100, 100, 98}), kSecond / 10).silence, Silence::kFailStop);
}

TEST(EarliestLast, WhoRarelyWritesRecordsIsNotSilent) {
  std::vector<LastRecord> seldom = records({100, 100, 100, 95});
  seldom.back().longest_gap_ns = 6 * kSecond;
  EXPECT_EQ(earliest_last(seldom, 1'000'000).silence, Silence::kNotFailStop);
}

/// On a busy machine recordings are ended one after the other.
TEST(EarliestLast, WhoseRecordingWasEndedEarlierIsNotSilent) {
  flow::Rig rig;
  for (uint32_t process = 0; process < 5; ++process) {
    const flow::At at{rig.process("server-" + std::to_string(process))};
    const int64_t end_ns = (process == 2 ? 8 : 10) * kSecond;
    for (int64_t now = 0; now < end_ns; now += kSecond / 10)
      rig.other(at, now);
    rig.recorded.processes[process].end_ns = end_ns;
  }
  EXPECT_EQ(earliest_last(last_records(rig.trace()), 1'000'000).silence, Silence::kNotFailStop);
  rig.recorded.processes[2].end_ns = 0;
  EXPECT_EQ(earliest_last(last_records(rig.trace()), 1'000'000).earliest, 2u) << "it died";
  EXPECT_EQ(earliest_last(last_records(rig.trace()), 1'000'000).silence, Silence::kFailStop);
}

/// What a process was once silent for, and then went on, tells nothing of another one.
TEST(EarliestLast, ASilenceThatAnotherOneEndedAccusesNobody) {
  std::vector<LastRecord> all = records({100, 100, 100, 95});
  all.front().longest_gap_ns = 6 * kSecond;
  EXPECT_EQ(earliest_last(all, 1'000'000).silence, Silence::kNotFailStop);
}

}  // namespace
}  // namespace kintsugi::anomaly

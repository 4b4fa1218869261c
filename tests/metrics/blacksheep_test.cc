#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "common/base/draws.h"
#include "monitoring/metrics/blacksheep/change_points.h"
#include "monitoring/metrics/blacksheep/corroboration.h"
#include "monitoring/metrics/blacksheep/states.h"
#include "tests/texts/metrics/blacksheep_as_printed.h"

namespace kintsugi::blacksheep {
namespace {

constexpr std::string_view kMinute = "2026-11-22T08:53:";

std::string at(std::string_view second, std::string_view rest) {
  return std::string(kMinute) + std::string(second) + "+0000 activity " + std::string(rest) + "\n";
}

States read(const std::string& text, Grammar grammar = activity_event) {
  StateReader reader(std::chrono::seconds(1), grammar);
  reader.feed(text);
  reader.end_file();
  return reader.states();
}

/// Figure 1 of the text: two short executions in second 10.
const std::string kFigure1 =
    at("10.000000", "begin pid=412 build=b1") + at("10.347000", "start chunkserver.read_chunk 1 chunk=81:3") +
    at("10.349000", "start chunkserver.read_chunk 2") + at("10.358000", "stop chunkserver.read_chunk 1 ok") +
    at("10.436000", "stop chunkserver.read_chunk 2 ok");

TEST(BlackSheepStates, ShortExecutionsVanishInTheTextsCountAndNotInOurs) {
  const States states = read(kFigure1);
  ASSERT_EQ(states.names, std::vector<std::string>{"chunkserver.read_chunk"});
  ASSERT_EQ(states.intervals(), 1u);
  EXPECT_EQ(states.open_at_end(0, 0), 0);
  EXPECT_EQ(states.overlapping(0, 0), 2);
  EXPECT_NEAR(states.concurrency(0, 0), 0.098, 1e-9);
  EXPECT_EQ(states.begin_ns % 1'000'000'000, 0);
  EXPECT_EQ(states.begin_ns, 1795337590'000'000'000);
}

TEST(BlackSheepStates, AnExecutionCountsInEveryIntervalThatItIsOpenIn) {
  const States states = read(at("10.500000", "start a 1") + at("12.250000", "stop a 1 ok"));
  ASSERT_EQ(states.intervals(), 3u);
  EXPECT_EQ(states.open_at_end.col(0), (Eigen::Vector3d(1, 1, 0)));
  EXPECT_EQ(states.overlapping.col(0), (Eigen::Vector3d(1, 1, 1)));
  EXPECT_TRUE(states.concurrency.col(0).isApprox(Eigen::Vector3d(0.5, 1, 0.25)));
}

TEST(BlackSheepStates, AnExecutionWithoutAStopIsOpenAtTheEnd) {
  const States states = read(at("10.500000", "start a 1") + at("12.000000", "instant b chunk=1:2"));
  EXPECT_EQ(states.open_at_end(2, 0), 1);
  EXPECT_EQ(states.instants(2, 1), 1);
  EXPECT_DOUBLE_EQ(states.activity(1)[2], 1);
}

TEST(BlackSheepStates, AnUnknownStopCountsAndIsNeverNegative) {
  const States states =
      read(at("10.0", "noise") + at("10.100000", "stop a 7 ok") + at("10.200000", "stop a 7 ok") +
           at("10.300000", "start a 8") + at("10.900000", "stop a 8 failed"));
  EXPECT_EQ(states.unknown_stops, 2u);
  EXPECT_EQ(states.foreign_lines, 1u);
  EXPECT_GE(states.open_at_end.minCoeff(), 0);
  EXPECT_NEAR(states.concurrency(0, 0), 0.6, 1e-9);
}

TEST(BlackSheepStates, AProcessThatBeginsAnewHasNothingOpen) {
  const States states = read(at("10.000000", "start a 1") + at("11.500000", "start a 2") +
                             at("14.000000", "begin pid=2 build=b1") + at("15.000000", "instant b"));
  ASSERT_EQ(states.intervals(), 6u);
  EXPECT_EQ(states.begins, std::vector<size_t>{4});
  EXPECT_NEAR(states.concurrency(1, 0), 0.5, 1e-9)
      << "what was open ended when the process was last heard of";
  EXPECT_EQ(states.concurrency.col(0).tail(4).sum(), 0);
}

TEST(BlackSheepStates, ReadsForeignCutAndDroppedLines) {
  const States states =
      read("a line of somebody else\n" + at("10.000000", "start a 1") + at("10.100000", "dropped 17") +
           at("10.100000", "dropped x") + at("10.150000", "error disk d1") + "2026-11-22T08:53:10.2000");
  EXPECT_EQ(states.lines, 5u);
  EXPECT_EQ(states.foreign_lines, 2u);
  EXPECT_EQ(states.cut_lines, 1u);
  EXPECT_EQ(states.dropped, 17u);
  EXPECT_EQ(states.names[1], "Error");
  EXPECT_EQ(states.instants(0, 1), 1);
}

TEST(BlackSheepStates, ALineMayBeCutAnywhereBetweenTwoPiecesOfAFile) {
  const States whole = read(kFigure1);
  for (size_t cut = 1; cut < kFigure1.size(); ++cut) {
    StateReader reader;
    reader.feed(std::string_view(kFigure1).substr(0, cut));
    reader.feed(std::string_view(kFigure1).substr(cut));
    ASSERT_EQ(reader.states().to_csv(), whole.to_csv()) << cut;
  }
}

TEST(BlackSheepStates, AClockThatIsSetBackMakesNothingNegative) {
  const States states = read(at("10.500000", "start a 1") + at("09.000000", "stop a 1 ok") +
                             at("10.700000", "start a 2") + at("11.000000", "stop a 2 ok"));
  EXPECT_NEAR(states.concurrency(0, 0), 0.3, 1e-9);
}

TEST(BlackSheepStates, AClockThatLeapsFarAheadIsOutOfRange) {
  const States states =
      read(at("10.500000", "start a 1") + "2036-11-22T08:53:10.000000+0000 activity stop a 1 ok\n" +
           at("11.500000", "stop a 1 ok"));
  EXPECT_EQ(states.out_of_range, 1u);
  EXPECT_EQ(states.intervals(), 2u);
}

/// Lines as a DataNode of Hadoop writes them: a start does not say of which state it is.
Event data_node(std::string_view line, int64_t) {
  const auto time = static_cast<int64_t>(1'000'000) * std::stoll(std::string(line.substr(0, line.find(' '))));
  if (line.ends_with("Receiving block or reading")) return {.kind = EventKind::kDeferredStart, .t_ns = time};
  if (line.find("Received block") != line.npos)
    return {.kind = EventKind::kDeferredStop, .t_ns = time, .state = "WriteBlock"};
  if (line.find("Served block") != line.npos)
    return {.kind = EventKind::kDeferredStop, .t_ns = time, .state = "ReadBlock"};
  return {};
}

TEST(BlackSheepStates, ADeferredStartGetsTheStateOfTheFirstStop) {
  StateReader reader(std::chrono::seconds(1), data_node);
  reader.feed("100 Receiving block or reading\n1200 Receiving block or reading\n");
  EXPECT_EQ(reader.states().intervals(), 0u)
      << "the first interval has an execution whose state is not known";
  reader.feed("1600 Served block blk_1 to /10.0.0.1\n");
  EXPECT_EQ(reader.states().intervals(), 1u) << "the second one has, too";
  reader.feed("2500 Received block blk_2\n2600 Received block blk_3\n");
  const States states = reader.states();
  ASSERT_EQ(states.names, (std::vector<std::string>{"ReadBlock", "WriteBlock"}));
  EXPECT_TRUE(states.concurrency.col(0).isApprox(Eigen::Vector3d(0.9, 0.6, 0)));
  EXPECT_TRUE(states.concurrency.col(1).isApprox(Eigen::Vector3d(0, 0.8, 0.5)));
  EXPECT_EQ(states.unknown_stops, 1u);
}

TEST(BlackSheepStates, ReadsTheFilesOfARotationInOrder) {
  namespace fs = std::filesystem;
  std::string name = (fs::temp_directory_path() / "states_test.XXXXXX").string();
  const fs::path folder = ::mkdtemp(name.data());
  std::ofstream(folder / "d.activity.2.log") << at("10.000000", "start a 1") << "2026-11";
  std::ofstream(folder / "d.activity.1.log")
      << at("11.000000", "start a 2") << at("11.500000", "stop a 1 ok");
  std::ofstream(folder / "d.activity.log") << at("12.000000", "stop a 2 ok");
  const auto states = read_states((folder / "d.activity.log").string());
  ASSERT_TRUE(states) << states.error();
  EXPECT_EQ(states->unknown_stops, 0u);
  EXPECT_EQ(states->cut_lines, 1u);
  EXPECT_NEAR(states->concurrency.sum(), 2.5, 1e-9);
  EXPECT_EQ(read_states((folder / "none.log").string()).error().code(), Code::kNotFound);
  fs::remove_all(folder);
}

/// obs of the spec: the level changes at 5, 12 and 18.
const std::vector<double> kLevels = [] {
  std::vector<double> out;
  for (const auto& [value, count] : {std::pair(2, 5), std::pair(10, 7), std::pair(2, 6), std::pair(7, 5)})
    out.insert(out.end(), static_cast<size_t>(count), value);
  return out;
}();

TEST(BlackSheepChangePoints, AsPrintedTheyAreEarlyAndDoubleAndBlindForFalls) {
  EXPECT_EQ(change_points_as_printed(kLevels, 3, 1), (std::vector<size_t>{3, 4}));
}

TEST(BlackSheepChangePoints, OursReportEachChangeOnceWhereItIs) {
  EXPECT_EQ(change_points(kLevels, {.window = 3, .threshold = 1, .floor = 1}),
            (std::vector<Change>{{5, 4, true}, {12, 4, false}, {18, 2.5, true}}));
  EXPECT_EQ(change_points(kLevels, {.window = 3, .threshold = 3, .floor = 1}).size(), 2u);
  EXPECT_EQ(change_points(kLevels, {.window = 3, .threshold = 1, .floor = 1, .noise = 6}).size(), 2u);
}

TEST(BlackSheepChangePoints, ShortConstantAndUnknownSeriesHaveNone) {
  EXPECT_TRUE(change_points(std::vector<double>{1, 2, 3}, {.window = 3}).empty());
  EXPECT_TRUE(change_points_as_printed(std::vector<double>{1, 2, 3}, 3, 1).empty());
  EXPECT_TRUE(change_points(std::vector<double>(50, 0), {.window = 3}).empty());
  EXPECT_TRUE(change_points(std::vector<double>(50, NAN), {.window = 3}).empty());
}

TEST(BlackSheepChangePoints, TheFloorAndTheNoiseComeFromAHealthySeries) {
  std::vector<double> healthy;
  for (int i = 0; i <= 100; ++i)
    healthy.push_back(i % 2 == 0 ? 100 : 200);
  EXPECT_DOUBLE_EQ(floor_of(healthy), 2);
  EXPECT_DOUBLE_EQ(floor_of(std::vector<double>(10, 0)), 1);
  EXPECT_DOUBLE_EQ(noise_of(std::vector<double>{0, 1, 3, 4, 9}, 1), 4 * 0.5) << "differences 1, 2, 1, 5";
}

TEST(BlackSheepChangePoints, ASeriesThatWorksAndRestsInTurnHasItsChanges) {
  std::vector<double> values;
  Draws draws(1);
  for (int second = 0; second < 600; ++second)
    values.push_back(second / 20 % 2 == 0 ? 10 + draws.normal() : 1 + 0.1 * draws.normal());
  const auto found = change_points(
      values, {.window = 10, .threshold = 1, .floor = floor_of(values), .noise = noise_of(values, 10)});
  EXPECT_EQ(found.size(), 29u) << "most windows lie over a change, so the noise is none of theirs";
}

TEST(BlackSheepScore, ExactAndTolerantScoresOfTheSpec) {
  const std::vector<size_t> metric{10, 40}, state{11, 60};
  const Corroboration exact = corroborate_exactly(metric, state, 100);
  EXPECT_EQ(exact.matches, 0u);
  EXPECT_EQ(exact.false_positives, 2u);
  EXPECT_EQ(exact.false_negatives, 2u);
  EXPECT_NEAR(exact.per_instant(), -0.06, 1e-12);
  const Corroboration tolerant = corroborate(metric, state, 100, 1);
  EXPECT_NEAR(tolerant.true_positives, 0.6065, 1e-4);
  EXPECT_NEAR(tolerant.per_instant(), -0.0239, 1e-4);
  EXPECT_EQ(tolerant.events(), 3u);
  EXPECT_NEAR(tolerant.normalised(), -0.798, 1e-3);
}

TEST(BlackSheepScore, NearestChangesMatchFirstAndEachOnce) {
  const Matching matching = match(std::vector<size_t>{10, 12}, std::vector<size_t>{11, 12, 15}, 1.5);
  ASSERT_EQ(matching.matches.size(), 2u);
  EXPECT_EQ(matching.matches[0].metric, 1u);
  EXPECT_EQ(matching.matches[0].state, 1u);
  EXPECT_EQ(matching.matches[0].weight, 1);
  EXPECT_EQ(matching.matches[1].metric, 0u);
  EXPECT_EQ(matching.state_alone, std::vector<size_t>{2});
}

TEST(BlackSheepScore, SilenceScoresNothing) {
  EXPECT_EQ(corroborate({}, {}, 100, 1).per_instant(), 0);
  EXPECT_EQ(corroborate({}, {}, 100, 1).normalised(), 0);
}

}  // namespace
}  // namespace kintsugi::blacksheep

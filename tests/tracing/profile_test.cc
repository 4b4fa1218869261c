// Flows as vectors, and how far apart they are.
#include "tracing/anomaly/profile.h"

#include <cmath>

#include "tests/tracing/rig.h"
#include "tracing/anomaly/comparators.h"
#include "tracing/anomaly/waiting.h"

namespace kintsugi::anomaly {
namespace {

using flow::At;
using flow::EventId;
using flow::Kind;
using flow::kSecond;
using flow::Rig;

/// Shares by the text of their path.
std::map<std::string, double> shares(const PathTotals& totals, const CallPaths& paths, ProfileKind kind) {
  std::map<std::string, double> shares;
  for (const Component& one : profile_of(totals, paths, kind))
    shares[(one.measure == Measure::kCommunication ? "bytes " : "") + paths.text(one.path)] = one.value;
  return shares;
}

std::vector<PathTotals> by_flow(const flow::Trace& trace, CallPaths& paths) {
  return totals_of(trace, groups_by_flow(flow::flows_in(trace)), paths);
}

TEST(Profile, DistanceOfFigure51) {
  const Profile g{{Measure::kTime, 1, 0.6}, {Measure::kTime, 2, 0.4}},
      h{{Measure::kTime, 1, 0.75}, {Measure::kTime, 2, 0.25}};
  EXPECT_DOUBLE_EQ(distance(g, h), 0.30);
  EXPECT_DOUBLE_EQ(distance(h, g), 0.30);
  EXPECT_EQ(distance(g, g), 0);
}

TEST(Profile, NothingInCommonIsTheLargestDistance) {
  EXPECT_DOUBLE_EQ(distance({{Measure::kTime, 1, 1}}, {{Measure::kTime, 2, 1}}), 2);
  EXPECT_DOUBLE_EQ(distance({{Measure::kTime, 1, 1}, {Measure::kCommunication, 1, 1}},
                            {{Measure::kTime, 2, 1}, {Measure::kCommunication, 2, 1}}),
                   4);
  EXPECT_DOUBLE_EQ(distance({}, {{Measure::kTime, 2, 1}}), 1);
}

/// Figure 5.6: process h turns from flow 1 to flow 2 at a receive within foo.
TEST(Profile, TheTimeOfAFunctionIsDividedWhereItsThreadTurnsToAnotherFlow) {
  Rig rig;
  const At g{rig.process("g", "same")}, h{rig.process("h", "same")};
  const uint32_t channel = rig.channel();
  const EventId second = rig.start(g, 0);
  rig.entry(g, "main", 0);
  rig.entry(g, "foo", 1 * kSecond);
  rig.send(g, channel, 0, 8, 1 * kSecond);
  rig.exit(g, "foo", 3 * kSecond);
  rig.exit(g, "main", 4 * kSecond);
  const EventId first = rig.start(h, 0);
  rig.entry(h, "main", 0);
  rig.entry(h, "foo", 1 * kSecond);
  rig.recv(h, channel, 0, 8, 3 * kSecond);
  rig.exit(h, "foo", 4 * kSecond);
  rig.exit(h, "main", 5 * kSecond);
  const flow::Trace trace = rig.trace();
  const flow::Flows flows = flow::flows_in(trace);
  CallPaths paths;
  const auto totals = totals_of(trace, groups_by_flow(flows), paths);
  const auto one = shares(totals[flows.of[first]], paths, ProfileKind::kTime),
             two = shares(totals[flows.of[second]], paths, ProfileKind::kTime);
  EXPECT_DOUBLE_EQ(one.at("same: main"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(one.at("same: main -> foo"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(two.at("same: main"), 0.5);
  EXPECT_DOUBLE_EQ(two.at("same: main -> foo"), 0.5);
}

TEST(Profile, PathsOfOneFunctionAreApartAndSoAreBinaries) {
  Rig rig;
  for (const std::string& binary : {"one", "two"}) {
    const At at{rig.process(binary, binary)};
    rig.entry(at, "main", 0);
    for (const std::string& caller : {"A", "B"}) {
      rig.entry(at, caller, 0);
      rig.entry(at, "C", 10);
      rig.exit(at, "C", 20);
      rig.exit(at, caller, 20);
    }
  }
  const flow::Trace trace = rig.trace();
  CallPaths paths, functions(Detail::kFunctions);
  std::map<std::string, double> all;
  for (const PathTotals& totals : by_flow(trace, paths))
    all.merge(shares(totals, paths, ProfileKind::kTime));
  EXPECT_THAT(all, testing::UnorderedElementsAre(
                       testing::Pair("one: main -> A", 0.5), testing::Pair("one: main -> A -> C", 0.5),
                       testing::Pair("two: main -> A", 0.5), testing::Pair("two: main -> A -> C", 0.5)))
      << "B is entered when A has used all the time";
  const auto together = shares(by_flow(trace, functions)[0], functions, ProfileKind::kCoverage);
  EXPECT_THAT(together,
              testing::UnorderedElementsAre(testing::Pair("one: main", 1), testing::Pair("one: A", 1),
                                            testing::Pair("one: B", 1), testing::Pair("one: C", 1)));
}

TEST(Profile, TwoCallSitesAreTwoPaths) {
  Rig rig;
  rig.entry({0}, "main", 0);
  for (uint32_t site : {11u, 12u}) {
    rig.entry({0}, "A", 1, site);
    rig.exit({0}, "A", 2);
  }
  const flow::Trace trace = rig.trace();
  CallPaths sites, plain(Detail::kPaths);
  EXPECT_EQ(profile_of(by_flow(trace, sites)[0], sites, ProfileKind::kCoverage).size(), 3u);
  EXPECT_EQ(profile_of(by_flow(trace, plain)[0], plain, ProfileKind::kCoverage).size(), 2u);
}

TEST(Profile, BytesAreThoseOfThePathThatSentThem) {
  Rig rig;
  const uint32_t channel = rig.channel();
  rig.entry({0}, "main", 0);
  int64_t offset = 0;
  for (const auto& [caller, bytes] : {std::pair("request", 100), std::pair("data", 300)}) {
    rig.entry({0}, caller, 10);
    rig.entry({0}, "send", 10);
    rig.send({0}, channel, offset, static_cast<uint64_t>(bytes), 10);
    rig.exit({0}, "send", 20);
    rig.exit({0}, caller, 20);
    offset += bytes;
  }
  const flow::Trace trace = rig.trace();
  CallPaths paths;
  const PathTotals totals = by_flow(trace, paths)[0];
  EXPECT_THAT(shares(totals, paths, ProfileKind::kCommunication),
              testing::UnorderedElementsAre(testing::Pair("bytes server: main -> request -> send", 0.25),
                                            testing::Pair("bytes server: main -> data -> send", 0.75)));
  const Profile composite = profile_of(totals, paths, ProfileKind::kComposite);
  EXPECT_DOUBLE_EQ(length_of(composite), 2);
  EXPECT_DOUBLE_EQ(distance(composite, {}), 2);
}

TEST(Profile, AFunctionThatIsStillRunningHasRunUntilTheTraceWasTaken) {
  Rig rig;
  rig.entry({0}, "main", 0);
  rig.entry({0}, "write", 10);
  rig.recorded.processes[0].end_ns = 1000;
  CallPaths paths;
  const flow::Trace trace = rig.trace();
  EXPECT_DOUBLE_EQ(shares(by_flow(trace, paths)[0], paths, ProfileKind::kTime).at("server: main -> write"),
                   0.99);
}

TEST(Profile, FramesThatAnExceptionLeftAreLeft) {
  Rig rig;
  rig.exit({0}, "before", 0);  // was running when the trace began
  rig.entry({0}, "main", 0);
  rig.entry({0}, "A", 0);
  rig.entry({0}, "B", 0);
  rig.exit({0}, "main2", 5);  // of nobody
  rig.exit({0}, "A", 10);
  rig.entry({0}, "C", 20);
  rig.exit({0}, "C", 30);
  CallPaths paths;
  const flow::Trace trace = rig.trace();
  const auto found = shares(by_flow(trace, paths)[0], paths, ProfileKind::kTime);
  EXPECT_DOUBLE_EQ(found.at("server: main -> A -> B"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(found.at("server: main"), 1.0 / 3);
  EXPECT_DOUBLE_EQ(found.at("server: main -> C"), 1.0 / 3);
}

TEST(Profile, TimeWithoutTheProcessorIsNotTheFunctions) {
  Rig rig;
  rig.entry({0}, "encode", 0);
  rig.add({.time_ns = 10, .kind = Kind::kPreempted});
  rig.add({.time_ns = 90, .kind = Kind::kResumed});
  rig.exit({0}, "encode", 100);
  CallPaths paths;
  const flow::Trace trace = rig.trace();
  const auto found = shares(by_flow(trace, paths)[0], paths, ProfileKind::kTime);
  EXPECT_DOUBLE_EQ(found.at("server: encode"), 0.2);
  EXPECT_DOUBLE_EQ(found.at("server: encode -> (preempted)"), 0.8);
}

TEST(Profile, SharedWorkIsTheFirstFlowsOrEachFlows) {
  Rig rig;
  rig.attribute("batch", true);
  rig.start({0, 0}, 0);
  rig.directive({0, 0}, Kind::kBegin, "batch", 1, 1);
  rig.start({0, 1}, 0);
  rig.directive({0, 1}, Kind::kBegin, "batch", 1, 2);
  rig.entry({0, 2}, "commit", 5);
  rig.directive({0, 2}, Kind::kEnd, "batch", 1, 5, "commit");
  rig.exit({0, 2}, "commit", 105);
  const flow::Trace trace = rig.trace();
  const flow::Flows flows = flow::flows_in(trace);
  CallPaths paths;
  const auto first = totals_of(trace, groups_by_flow(flows), paths),
             each = totals_of(trace, groups_by_flow(flows, true), paths);
  const auto committed = [&](const PathTotals& totals) {
    return shares(totals, paths, ProfileKind::kTime).contains("server: commit");
  };
  EXPECT_TRUE(committed(first[0]));
  EXPECT_FALSE(committed(first[1]));
  EXPECT_TRUE(committed(each[0]));
  EXPECT_TRUE(committed(each[1]));
}

TEST(Profile, FragmentsAddUpToTheWhole) {
  Rig rig;
  const uint32_t channel = rig.channel();
  rig.entry({0}, "main", 0);
  rig.entry({0}, "A", 15);
  rig.send({0}, channel, 0, 7, 15);
  rig.exit({0}, "A", 85);
  rig.exit({0}, "main", 100);
  const flow::Trace trace = rig.trace();
  CallPaths paths;
  const Groups groups = groups_by_process(trace);
  const auto fragments =
      totals_of_fragments(trace, groups, paths, {.begin_ns = 0, .end_ns = 101, .count = 7});
  std::map<PathId, std::pair<int64_t, uint64_t>> sum, whole;
  for (const auto& fragment : fragments)
    for (const PathTotal& total : fragment[0])
      sum[total.path].first += total.self_ns, sum[total.path].second += total.bytes;
  const PathTotals undivided = totals_of(trace, groups, paths)[0];
  for (const PathTotal& total : undivided)
    whole[total.path] = {total.self_ns, total.bytes};
  EXPECT_EQ(sum, whole);
  EXPECT_EQ(fragments[3][0].size(), 1u) << "nothing but A in the middle";
}

TEST(CallPaths, EndlessRecursionIsBounded) {
  Rig rig;
  for (int i = 0; i < 1'000; ++i)
    rig.entry({0}, "f", i);
  for (int i = 0; i < 1'000; ++i)
    rig.exit({0}, "f", 1'000 + i);
  const flow::Trace trace = rig.trace();
  CallPaths paths;
  const PathTotals totals = by_flow(trace, paths)[0];
  EXPECT_EQ(profile_of(totals, paths, ProfileKind::kCoverage).size(), kMostDepth);
  EXPECT_EQ(paths.collapsed(), 1'000 - kMostDepth);
  EXPECT_THAT(paths.text(totals.back().path, 2), "server: ... -> f -> f");
}

/// Calls of the event loop are aside, and so is what keeps books: what they run is their time all the same, and what they wait is not.
TEST(Waiting, BelowFunctionsThatAreAsideIsNoTimeInWhichTheyRun) {
  CallPaths paths;
  const PathId binary = paths.binary(paths.name("server"));
  const auto call = [&](PathId caller, const char* function) {
    return paths.call(caller, paths.name(function), 0);
  };
  const PathId loop = call(binary, "asio::run"), wait_in_loop = call(loop, "asio::epoll");
  const PathId sends = call(loop, "sight::send"), wait_in_send = call(sends, "(waits)");
  const PathId reads = call(wait_in_loop, "read");
  PathTotals totals;
  for (const PathId path : {loop, wait_in_loop, sends, wait_in_send, reads})
    totals.push_back({.path = path, .self_ns = 100});
  const std::vector<Waiting> waiting =
      waiting_of(paths, {.waits = {"(waits)", "asio::epoll"}, .others = {}, .aside = {"asio::", "sight::"}});
  std::vector<PathId> run;
  for (const PathTotal& total : part_of(totals, waiting, Part::kRunning))
    if (total.self_ns > 0) run.push_back(total.path);
  EXPECT_THAT(run, ::testing::ElementsAre(loop, sends, reads));
  EXPECT_THAT(calls_of(totals, waiting), ::testing::IsEmpty()) << "all of it lies below the event loop";
}

TEST(Comparators, EditDistanceAndClusters) {
  EXPECT_EQ(edit_distance(std::vector<NameId>{1, 2, 3}, std::vector<NameId>{1, 3, 4}), 2u);
  EXPECT_EQ(edit_distance({}, std::vector<NameId>{1, 3, 4}), 3u);
  const std::vector<Profile> profiles{{{Measure::kTime, 1, 1.0}},
                                      {{Measure::kTime, 1, 0.9}, {Measure::kTime, 2, 0.1}},
                                      {{Measure::kTime, 3, 1.0}}};
  EXPECT_THAT(single_link_clusters(profiles, 0.5), testing::ElementsAre(0, 0, 1));
  EXPECT_THAT(single_link_clusters(profiles, 0.1), testing::ElementsAre(0, 1, 2));
  Rig rig;
  rig.start({0});
  rig.entry({0}, "A");
  rig.entry({0}, "B");
  rig.exit({0}, "B");
  rig.entry({0}, "A");
  const flow::Trace trace = rig.trace();
  CallPaths paths;
  const auto strings = request_strings(trace, flow::flows_in(trace), paths);
  EXPECT_THAT(strings,
              testing::ElementsAre(testing::ElementsAre(paths.name("A"), paths.name("B"), paths.name("A"))));
}

}  // namespace
}  // namespace kintsugi::anomaly

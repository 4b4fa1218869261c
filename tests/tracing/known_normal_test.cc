// A run that was well decides what requests are accused of; without one, lost seconds and odd calls do.
#include "tests/tracing/rig.h"
#include "tracing/anomaly/waiting.h"
#include "tracing/cause/explanation.h"

namespace kintsugi::cause {
namespace {

using anomaly::CallPaths;
using anomaly::PathTotals;
using flow::At;
using flow::kSecond;
using flow::Rig;

constexpr int64_t kMillisecond = kSecond / 1000;
constexpr int kServers = 3, kReads = 20;

/// What one read does: milliseconds in each function, in turn. "disk -> (waits)" waits, and so does "receive -> (waits)", for others.
using Read = std::vector<std::pair<std::string, int64_t>>;

/// Reads of three servers, one after the other on each: all take 2 ms, and one in seven finds its processor taken for `busy_ms`.
Rig reads(int64_t busy_ms, const std::map<std::pair<int, int>, Read>& odd = {}, int each = kReads) {
  Rig rig;
  for (int server = 0; server < kServers; ++server) {
    const At at{rig.process("chunkserver-" + std::to_string(server), "chunkserver")};
    int64_t now = 0;
    for (int number = 0; number < each; ++number) {
      Read read{{"compute", number % 7 == server ? busy_ms : 1}, {"disk", 1}};
      if (const auto found = odd.find({server, number}); found != odd.end()) read = found->second;
      rig.start(at, now);
      rig.entry(at, "read", now);
      for (const auto& [function, milliseconds] : read) {
        rig.entry(at, function, now);
        if (function == "disk" || function == "receive") rig.entry(at, "(waits)", now);
        now += milliseconds * kMillisecond;
        if (function == "disk" || function == "receive") rig.exit(at, "(waits)", now);
        rig.exit(at, function, now);
      }
      rig.exit(at, "read", now);
      now += kMillisecond;
    }
    rig.recorded.processes[static_cast<size_t>(server)].end_ns = now;
  }
  return rig;
}

/// What is said of the reads of `odd`, and whom it accuses: the place of the read among all, or -1.
struct Judged {
  Explanation found;
  int server = -1;
  std::string text;
};

Judged judge(const Rig& odd, const Rig& normal) {
  CallPaths paths;
  const flow::Trace trace = odd.trace(), well = normal.trace();
  const flow::Flows flows = flow::build_flows(trace, flow::match_messages(trace), {}),
                    normal_flows = flow::build_flows(well, flow::match_messages(well), {});
  const std::vector<PathTotals> totals = anomaly::totals_of(trace, anomaly::groups_by_flow(flows), paths),
                                normal_totals =
                                    anomaly::totals_of(well, anomaly::groups_by_flow(normal_flows), paths);
  const std::vector<FlowsOfOneKind> kinds = kinds_of_flows(trace, flows),
                                    normal_kinds = kinds_of_flows(well, normal_flows);
  EXPECT_EQ(kinds.size(), 1u);
  std::vector<PathTotals> trials, known;
  for (const flow::FlowId flow : kinds[0].flows)
    trials.push_back(totals[flow]);
  for (const flow::FlowId flow : normal_kinds[0].flows)
    known.push_back(normal_totals[flow]);
  KnownNormal chance({known}, paths, {.waits = {"(waits)"}, .others = {"receive"}});
  EXPECT_TRUE(chance.look_at(trials, beginnings_of(trace, flows, kinds[0].flows), known).ok());
  const auto explanation = explain_flows(
      trace, flows, paths, {.compared = kinds[0].flows, .normal = known, .totals = totals, .known = &chance});
  EXPECT_TRUE(explanation) << explanation.error();
  Judged judged{.found = *explanation, .text = describe(*explanation, paths, "it")};
  if (explanation->culprit != flow::kNone)
    judged.server = static_cast<int>(trace.event(flows.flows[explanation->culprit].root).process);
  return judged;
}

TEST(KnownNormal, ProcessorsThatAreTakenAccuseNobody) {
  const Judged judged = judge(reads(60), reads(40));
  EXPECT_EQ(judged.found.finding, Finding::kNoOutlier) << judged.text;
}

/// All of its processors are busier than they were in the run that was well: no server is to blame for that.
TEST(KnownNormal, ABusierMachineAccusesNobody) {
  const Judged judged = judge(reads(400), reads(20));
  EXPECT_EQ(judged.found.finding, Finding::kNoOutlier) << judged.text;
}

/// Three reads do not tell how far apart chance puts them.
TEST(KnownNormal, ARunWithAFewRequestsIsNoMeasure) {
  const Judged judged = judge(reads(60, {{{1, 9}, {{"compute", 1}, {"disk", 3000}}}}), reads(40, {}, 1));
  EXPECT_EQ(judged.found.finding, Finding::kTooFew) << judged.text;
}

TEST(KnownNormal, WhoIsHeldUpForSecondsIsNamed) {
  const Judged judged = judge(reads(60, {{{1, 9}, {{"compute", 1}, {"disk", 3000}}}}), reads(40));
  EXPECT_EQ(judged.server, 1);
  EXPECT_EQ(judged.text,
            "it is unlike the others by its elapsed time profile: its score is 3.00, the usual one 0.00.\n"
            "Most of the difference: chunkserver: read -> disk -> (waits) (3.000 s, usually 0.001 s).\n");
}

TEST(KnownNormal, WhoIsLessThanTwiceAsOddAsAnotherServerIsNotCountedAmongTheOutliers) {
  const Read late{{"compute", 1}, {"disk", 3000}}, less{{"compute", 1}, {"disk", 1000}};
  const Judged judged = judge(reads(60, {{{1, 9}, late}, {{0, 5}, less}}), reads(40));
  EXPECT_EQ(judged.server, 1);
  EXPECT_GT(judged.found.ranking.threshold, 1.9) << "the other one lost a second";
  EXPECT_EQ(judged.found.ranking.outliers, 1u);
}

TEST(KnownNormal, TimesOfLessThanAMillisecondAreTold) {
  CallPaths paths;
  const anomaly::PathId read = paths.call(paths.binary(paths.name("chunkserver")), paths.name("read"), 0);
  const auto told = [&](double seconds, double usually) {
    Explanation found{.finding = Finding::kOutlier, .profile = anomaly::ProfileKind::kElapsed};
    found.ranking.scores.push_back({.score = seconds});
    found.differences.push_back({.path = read, .anomalous = seconds, .normal = usually});
    const std::string text = describe(found, paths, "it");
    return text.substr(text.find("read "));
  };
  EXPECT_EQ(told(0.0125, 0.000'25), "read (0.013 s, usually 250.000 µs).\n");
  EXPECT_EQ(told(0.000'7, 0), "read (700.000 µs, usually 0 s).\n");
  EXPECT_EQ(told(0.001, 0.000'000'012), "read (0.001 s, usually 0.012 µs).\n");
}

/// While it ran in a circle another read waited for longer: that one only waited.
TEST(KnownNormal, WhoRunsIsNamedBeforeWhoWaits) {
  const Judged judged = judge(
      reads(60, {{{1, 8}, {{"compute", 1}, {"disk", 3500}}}, {{1, 9}, {{"compute", 3000}, {"disk", 1}}}}),
      reads(40));
  EXPECT_EQ(judged.found.part, anomaly::Part::kRunning);
  EXPECT_NE(judged.text.find("read -> compute (3.000 s"), std::string::npos) << judged.text;
}

TEST(KnownNormal, WhoWaitsForAMessageOfOthersIsNotNamed) {
  const Judged judged = judge(reads(60, {{{1, 9}, {{"compute", 1}, {"receive", 3000}}}}),
                              reads(40, {{{0, 3}, {{"receive", 2}}}}));
  EXPECT_EQ(judged.found.finding, Finding::kNoOutlier) << judged.text;
}

/// Without a run that was well.
Judged judge_alone(const Rig& odd) {
  CallPaths paths;
  const flow::Trace trace = odd.trace();
  const flow::Flows flows = flow::build_flows(trace, flow::match_messages(trace), {});
  const std::vector<PathTotals> totals = anomaly::totals_of(trace, anomaly::groups_by_flow(flows), paths);
  const std::vector<FlowsOfOneKind> kinds = kinds_of_flows(trace, flows);
  const std::vector<anomaly::Waiting> waiting =
      anomaly::waiting_of(paths, {.waits = {"(waits)"}, .others = {"receive"}, .aside = {"sight::"}});
  const auto explanation =
      explain_flows(trace, flows, paths, {.compared = kinds[0].flows, .totals = totals, .waiting = waiting});
  EXPECT_TRUE(explanation) << explanation.error();
  Judged judged{.found = *explanation, .text = describe(*explanation, paths, "it")};
  if (explanation->culprit != flow::kNone)
    judged.server = static_cast<int>(trace.event(flows.flows[explanation->culprit].root).process);
  return judged;
}

/// Each read's connection then waits for its next request, for longer than the read took.
Rig reads_of_idle_connections(std::map<std::pair<int, int>, Read> odd) {
  for (int server = 0; server < kServers; ++server)
    for (int number = 0; number < kReads; ++number)
      odd.try_emplace({server, number},
                      Read{{"compute", 1 + number % 5}, {"disk", 1}, {"receive", 100 + 20 * (number % 5)}});
  return reads(1, odd);
}

TEST(Alone, WhoIsHeldUpForSecondsIsNamed) {
  const Judged judged = judge_alone(
      reads_of_idle_connections({{{1, 9}, {{"compute", 1}, {"disk", 5000}, {"receive", 5000}}},
                                 {{1, 12}, {{"compute", 1}, {"disk", 4000}, {"receive", 4000}}}}));
  EXPECT_EQ(judged.server, 1);
  EXPECT_EQ(judged.text,
            "it is unlike the others by its elapsed time profile: its score is 5.00, the usual one 0.00.\n"
            "Most of the difference: chunkserver: read -> disk -> (waits) (5.000 s, usually 0.001 s).\n");
}

TEST(Alone, SecondsAccuseNobodyWhoWasHeldUpForLessOrAsOthersWere) {
  const auto profile_of = [](const std::map<std::pair<int, int>, Read>& odd) {
    return judge_alone(reads_of_idle_connections(odd)).found.profile;
  };
  const auto waits = [](int64_t milliseconds) { return Read{{"compute", 1}, {"disk", milliseconds}}; };
  EXPECT_NE(profile_of({{{1, 9}, waits(900)}}), anomaly::ProfileKind::kElapsed) << "less than a second";
  EXPECT_NE(profile_of({{{1, 9}, waits(3000)}, {{0, 5}, waits(2000)}}), anomaly::ProfileKind::kElapsed)
      << "another server's read was held up for more than half as long";
  EXPECT_NE(profile_of({{{1, 9}, {{"compute", 1}, {"receive", 5000}}}}), anomaly::ProfileKind::kElapsed)
      << "it waited for a message of somebody else";
  EXPECT_EQ(profile_of({{{1, 9}, waits(3000)}}), anomaly::ProfileKind::kElapsed);
}

TEST(Alone, AFirstCallOfAnAnnotationAccusesNobody) {
  const Read first{{"compute", 1}, {"sight::find", 0}, {"sight::create", 0}, {"disk", 1}, {"receive", 100}};
  Judged judged = judge_alone(reads_of_idle_connections({{{2, 5}, first}}));
  EXPECT_EQ(judged.found.finding, Finding::kNoOutlier) << judged.text;

  const Read drops{{"compute", 1}, {"drop_corrupt", 0}, {"sight::find", 0}, {"disk", 1}, {"receive", 100}};
  judged = judge_alone(reads_of_idle_connections({{{1, 7}, drops}}));
  EXPECT_EQ(judged.server, 1);
  EXPECT_EQ(judged.text,
            "it is unlike the others by its coverage profile: its score is 1.00, the usual one 0.00.\n"
            " 1. chunkserver: read alone calls drop_corrupt.\n");
}

TEST(KnownNormal, WhoDoesSomethingNewIsNamedThoughItTakesNoTime) {
  const Judged judged =
      judge(reads(60, {{{2, 5}, {{"compute", 1}, {"drop_corrupt", 0}, {"disk", 1}}}}), reads(40));
  EXPECT_EQ(judged.server, 2);
  EXPECT_NE(judged.text.find(" 1. chunkserver: read alone calls drop_corrupt."), std::string::npos)
      << judged.text;
}

}  // namespace
}  // namespace kintsugi::cause

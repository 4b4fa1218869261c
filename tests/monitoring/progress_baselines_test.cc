#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monitoring/progress/texts/automaded.h"
#include "monitoring/progress/texts/comparison.h"
#include "monitoring/progress/texts/point_to_point.h"
#include "monitoring/progress/texts/prodometer.h"
#include "tests/monitoring/report_rig.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

GlobalModel model_of(const std::vector<std::tuple<uint64_t, uint64_t, double>>& edges, uint64_t entry) {
  GlobalModel model;
  for (const auto& [from, to, count] : edges)
    model.markov.add(from, to, count);
  model.entries = {model.markov.find(entry)};
  return model;
}

/// T0 to T3 of the lexicographic example: (state; outer, inner).
std::vector<Standing> four_tasks() {
  std::vector<Standing> tasks(4);
  const std::vector<std::tuple<uint64_t, double, double>> at{{4, 7, 40}, {4, 8, 33}, {5, 8, 35}, {3, 8, 34}};
  for (size_t i = 0; i < 4; i++) {
    tasks[i].task = static_cast<uint32_t>(i);
    tasks[i].state = std::get<0>(at[i]);
    tasks[i].add(5, 2, std::get<1>(at[i]));
    tasks[i].add(4, 3, std::get<2>(at[i]));
    tasks[i].seal();
  }
  return tasks;
}

TEST(Prodometer, FindsTheTaskThatIsBehindInTheOuterLoop) {
  const GlobalModel model =
      model_of({{2, 3, 35}, {3, 4, 176}, {4, 3, 142}, {4, 5, 32}, {5, 2, 31}, {5, 6, 0}}, 2);
  const std::vector<Standing> tasks = four_tasks();
  const DependenceGraph graph = prodometer(tasks, model);
  EXPECT_THAT(least_progressed(graph), ElementsAre(0));
  EXPECT_THAT(graph[1], Contains(0));
  EXPECT_THAT(graph[2], testing::IsSupersetOf({0u, 1u, 3u}));
  EXPECT_THAT(graph[3], testing::IsSupersetOf({0u, 1u}));
}

TEST(Prodometer, OfAGroupTheCountOfOneTaskIsComparedAndNotTheSum) {
  const GlobalModel model = model_of({{1, 2, 30}, {2, 1, 29}}, 1);
  std::vector<Standing> tasks(11);
  for (size_t i = 0; i < 11; i++) {
    tasks[i].task = static_cast<uint32_t>(i);
    tasks[i].state = 1;
    tasks[i].add(2, 1, i == 10 ? 9 : 5);  // ten tasks that are behind have 50 together
  }
  EXPECT_THAT(least_progressed(prodometer(tasks, model)), SizeIs(10));
}

TEST(AutomaDeD, IsLostInLoopsAsTheTextSays) {
  const std::vector<std::tuple<uint64_t, uint64_t, double>> closed{
      {2, 3, 35}, {3, 4, 176}, {4, 3, 142}, {4, 5, 32}, {5, 2, 31}};
  const std::vector<Standing> tasks = four_tasks();
  const auto least = [&](const auto& edges, bool hitting) {
    return least_progressed(automaded(tasks, model_of(edges, 2), false, hitting));
  };
  // Everything reaches everything: undefined all over, so that all four are the least progressed.
  EXPECT_THAT(least(closed, true), SizeIs(4));
  // With a few exits the answer is definite, and wrong: it is T0, not T3, that is behind.
  auto open = closed;
  open.emplace_back(5, 6, 9);
  EXPECT_THAT(least(open, true), ElementsAre(3));
  // Sums over simple paths undercount loops and name a third one.
  EXPECT_THAT(least(closed, false), ElementsAre(2));
}

TEST(AutomaDeD, FindsTheLeastProgressedOfFigure4) {
  const GlobalModel model = model_of({{1, 2, 10},
                                      {2, 3, 7},
                                      {2, 9, 3},
                                      {3, 4, 10},
                                      {4, 5, 10},
                                      {5, 6, 9},
                                      {5, 11, 1},
                                      {6, 7, 10},
                                      {7, 8, 10},
                                      {8, 5, 10},
                                      {9, 10, 10},
                                      {10, 11, 10}},
                                     1);
  std::vector<Standing> tasks(5);
  const std::vector<uint64_t> at{1, 3, 5, 8, 10};
  for (size_t i = 0; i < 5; i++) {
    tasks[i].task = static_cast<uint32_t>(i);
    tasks[i].state = at[i];
  }
  EXPECT_THAT(least_progressed(automaded(tasks, model, false)), ElementsAre(0));
  // Nobody's own model knows more than its own state: no dependence at all.
  EXPECT_THAT(least_progressed(automaded(tasks, model, true)), SizeIs(5));
  for (Standing& task : tasks) {
    for (uint32_t from = 0; from < model.markov.size(); from++)
      for (size_t i = 0; i < model.markov.successors()[from].size(); i++)
        task.add(model.markov.key(from), model.markov.key(model.markov.successors()[from][i]),
                 model.markov.counts()[from][i]);
    task.seal();
  }
  EXPECT_THAT(least_progressed(automaded(tasks, model, true)), ElementsAre(0));
}

std::vector<Verdict> diagnose_by(Method method, ReportRig& rig) {
  Comparison comparison(method);
  return rig.diagnose_by(comparison);
}

/// A get whose one fetch stands at a disk; the others have received everything.
struct Fetches : ReportRig {
  Fetches() {
    const uint64_t reader = client();
    const RigTask window = task(reader, "client.read_window");
    for (int i = 1; i <= 3; i++) {
      const RigTask fetch = task(reader, "client.fetch_chunk", window.span);
      const RigTask read = task(server(i), "chunkserver.read_chunk", call(fetch, proto::WAIT_RECEIVE, i));
      wait(read, proto::WAIT_UPSTREAM, live(read).parent());
      if (i == 2) disk(read, "sda");
    }
    wait(window, proto::WAIT_JOIN, window.span);
  }
};

TEST(Methods, WithTargetsHiddenWhoWaitsForNobodyIsTheLeastProgressed) {
  Fetches fetches;
  const auto verdicts = diagnose_by(Method::kTargetsHidden, fetches);
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].server(), "server 2");
  EXPECT_EQ(verdicts[0].region(), "chunkserver.read_chunk");
  EXPECT_EQ(verdicts[0].confidence(), Verdict::UNSURE);
}

/// Server 1 waits for an answer, and nobody is seen to work on it.
struct Unheard : ReportRig {
  Unheard() {
    call(task(server(1), "chunkserver.repair_chunk"), proto::WAIT_CALL, 2);
    for (const int number : {2, 3, 4})
      server(number);
  }
  std::vector<Verdict> hidden() { return comparison.diagnose(snapshot()); }
  Comparison comparison{Method::kTargetsHidden};
};

TEST(Methods, WithTargetsHiddenWhoWaitsForOthersIsNobodysCulprit) {
  Unheard rig;
  for (int round = 0; round < 6; round++)
    EXPECT_THAT(rig.hidden(), IsEmpty());
}

TEST(Methods, WithTargetsHiddenAServerThatDoesNotReportIsWhomOthersMayWaitFor) {
  Unheard rig;
  rig.silence(rig.server(3), 9s);
  (void)rig.hidden();
  const auto verdicts = rig.hidden();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::SILENT);
  EXPECT_EQ(verdicts[0].server(), "server 3");
  EXPECT_EQ(verdicts[0].confidence(), Verdict::UNSURE);
}

TEST(Methods, WithTargetsHiddenTheOnlyServerThatServesNobodyIsWhomOthersMayWaitFor) {
  for (const int idle : {1, 2}) {
    Unheard rig;
    std::vector<proto::SightRole*> roles;
    for (const int number : {1, 2, 3, 4}) {
      roles.push_back(rig.report(rig.server(number)).add_roles());
      roles.back()->set_role(7);
      roles.back()->set_name("serve.ReadChunk");
    }
    std::vector<Verdict> verdicts;
    for (uint64_t round = 0; round < 6; round++) {
      for (size_t i = 0; i < roles.size(); i++)
        roles[i]->set_begun(100 + (i == 2 || (idle == 2 && i == 1) ? 0 : round));
      verdicts = rig.hidden();
    }
    ASSERT_THAT(verdicts, SizeIs(idle == 1 ? 1 : 0)) << "one of two may have nothing to do";
    if (idle == 1) EXPECT_EQ(verdicts[0].server(), "server 3");
  }
}

TEST(PointToPoint, OfSeveralLeastProgressedTasksThoseStayThatWaitForNobodyByName) {
  using Waits = std::vector<std::vector<uint32_t>>;
  const std::vector<uint32_t> least{0, 1, 2};
  EXPECT_THAT(without_point_to_point(least, Waits{{}, {0}, {0}, {}}), ElementsAre(0));
  EXPECT_THAT(without_point_to_point(least, Waits{{}, {}, {3}, {}}), ElementsAre(0, 1))
      << "3 is ahead of all";
  EXPECT_THAT(without_point_to_point(least, Waits{{1}, {0}, {}, {}}), ElementsAre(0, 1, 2))
      << "messages both ways";
  EXPECT_THAT(without_point_to_point(least, Waits{{1}, {2}, {0}, {}}), ElementsAre(0, 1, 2)) << "a circle";
  EXPECT_THAT(without_point_to_point({2}, Waits{{}, {}, {0}, {}}), ElementsAre(2));
}

TEST(Methods, TheBaselinesNameTheServerThatTheOthersWaitForByName) {
  for (const Method method : {Method::kProdometer, Method::kAutomaDeDSemi}) {
    ReportRig rig;
    const RigTask repair = rig.task(rig.server(1), "chunkserver.repair_chunk");
    (void)rig.task(rig.server(2), "chunkserver.partial_sum", rig.call(repair, proto::WAIT_RECEIVE, 2));
    const auto verdicts = diagnose_by(method, rig);
    ASSERT_THAT(verdicts, SizeIs(1)) << "nobody tells of a path between the two";
    EXPECT_EQ(verdicts[0].server(), "server 2");
  }
}

TEST(Methods, TheBaselinesHearOfProcessesThatStandStillAsOursDoes) {
  for (const Method method : {Method::kProdometer, Method::kAutomaDeD, Method::kTargetsHidden}) {
    Fetches fetches;
    fetches.silence(fetches.server(3), 9s);
    fetches.servers().push_back({.server_id = fetches.server(3),
                                 .address = ReportRig::address(3),
                                 .name = "server 3",
                                 .liveness = model::Liveness::kDead});
    const auto verdicts = diagnose_by(method, fetches);
    ASSERT_THAT(verdicts, SizeIs(1));
    EXPECT_EQ(verdicts[0].kind(), Verdict::SILENT);
    EXPECT_EQ(verdicts[0].server(), "server 3");
  }
}

TEST(Methods, TheBaselinesAnswerOnTheSameSnapshots) {
  for (const Method method :
       {Method::kProdometer, Method::kAutomaDeD, Method::kAutomaDeDSemi, Method::kOldestSpan}) {
    Fetches fetches;
    EXPECT_FALSE(diagnose_by(method, fetches).empty()) << static_cast<int>(method);
  }
  Fetches fetches;
  EXPECT_THAT(diagnose_by(Method::kSilence, fetches), IsEmpty());
}

TEST(Methods, WhereNoPathWasEverSeenNobodyIsNamedSurely) {
  for (const Method method :
       {Method::kTargetsHidden, Method::kProdometer, Method::kAutomaDeD, Method::kAutomaDeDSemi}) {
    ReportRig rig;  // nobody tells of a transition
    rig.task(rig.server(1), "chunkserver.read_chunk");
    rig.task(rig.server(2), "chunkserver.partial_sum");
    const auto verdicts = diagnose_by(method, rig);
    EXPECT_THAT(verdicts, SizeIs(2)) << "neither depends on the other";
    for (const Verdict& verdict : verdicts) {
      EXPECT_EQ(verdict.confidence(), Verdict::UNSURE);
      EXPECT_EQ(verdict.probability(), 0.5);
      EXPECT_THAT(verdict.why(), ElementsAre("by its progress, not by what others wait for"));
    }
  }
}

TEST(Methods, SiblingsThatDoNotSayWhatTheyWaitForAreOrderedByTheirProgress) {
  for (const bool compare_siblings : {true, false}) {
    ReportRig rig;
    const RigTask parent = rig.task(rig.client(), "client.finish_stripe");
    for (int i = 1; i <= 3; i++)
      rig.live(rig.task(rig.server(i), "chunkserver.write_chunk", parent.span)).set_progress(i == 2 ? 5 : 9);
    rig.wait(parent, proto::WAIT_IDLE, 0);
    Engine engine({.compare_siblings = compare_siblings});
    const auto verdicts = rig.diagnose_by(engine);
    ASSERT_THAT(verdicts, SizeIs(compare_siblings ? 1 : 3));
    if (compare_siblings) EXPECT_EQ(verdicts[0].server(), "server 2");
  }
}

}  // namespace
}  // namespace kintsugi::progress

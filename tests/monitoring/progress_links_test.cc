#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/proto/verdicts.h"
#include "tests/monitoring/report_rig.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

/// The last of six rounds in which the process begins to serve one request more each time.
std::vector<Verdict> while_it_serves_others(ReportRig& rig, uint64_t process) {
  proto::SightRole& role = *rig.report(process).add_roles();
  role.set_role(7);
  role.set_name("serve.ReadChunk");
  std::vector<Verdict> verdicts;
  for (uint64_t round = 0; round < 6; round++) {
    role.set_begun(100 + round);
    verdicts = rig.engine().diagnose(rig.snapshot());
  }
  return verdicts;
}

TEST(Hearing, ARequestThatTheCalleeHasNoTaskForIsNamedBeforeOneThatItWorksOn) {
  for (const bool heard : {false, true}) {
    ReportRig rig;
    const RigTask caller = rig.task(rig.server(1), "repair_manager.repair", 0, 77, 4500ms);
    const uint64_t span = rig.call(caller, proto::WAIT_CALL, 2);
    const uint64_t callee = rig.server(2);
    if (heard) rig.task(callee, "chunkserver.repair_chunk", span, 77, 4500ms);
    const auto verdicts = while_it_serves_others(rig, callee);
    ASSERT_THAT(verdicts, SizeIs(heard ? 0 : 1))
        << "nobody knows how long either usually takes: five seconds are no hang";
    if (!heard) EXPECT_EQ(verdicts[0].kind(), Verdict::LINK);
  }
}

TEST(Hearing, ACalleeThatGoesOnToServeOthersHearsThem) {
  // Those others are gone before they report anything.
  ReportRig rig;
  rig.call(rig.task(rig.server(1), "chunkserver.repair_chunk"), proto::WAIT_CALL, 2);
  const auto verdicts = while_it_serves_others(rig, rig.server(2));
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::LINK);
  EXPECT_THAT((std::vector{verdicts[0].server(), verdicts[0].peer()}),
              UnorderedElementsAre("server 1", "server 2"));
  EXPECT_EQ(verdicts[0].confidence(), Verdict::LIKELY) << "one of the two may be at fault, and not the link";
}

TEST(Hearing, WhoHasHardlyAnyProcessorIsAtTheEndOfNoBrokenLink) {
  enum class Starves { kNobody, kCallee, kCaller };
  struct Case {
    Starves who;
    bool is_frozen;  ///< it stands still as a whole, and so does not even wait for a processor
  };
  for (const auto& [who, is_frozen] :
       {Case{Starves::kNobody, false}, Case{Starves::kCallee, false}, Case{Starves::kCaller, false},
        Case{Starves::kCallee, true}, Case{Starves::kCaller, true}})
    for (const bool serves_others : {true, false}) {
      ReportRig rig;
      const uint64_t caller = rig.server(1), callee = rig.server(2);
      rig.call(rig.task(caller, "chunkserver.repair_chunk"), proto::WAIT_CALL, 2);
      proto::SightRole& role = *rig.report(callee).add_roles();
      role.set_role(7);
      role.set_name("serve.ReadChunk");
      role.set_begun(100);
      std::vector<Verdict> verdicts;
      for (int second = 0; second < 8; second++) {
        if (serves_others) role.set_begun(role.begun() + 1);
        for (const uint64_t process : {caller, callee}) {
          proto::SightReport& report = rig.report(process);
          report.set_uptime_ns(report.uptime_ns() + 1'000'000'000);
          proto::SightSystem& system = *report.mutable_system();
          system.set_machine("boot-1");
          system.set_loop_cpu_ns(system.loop_cpu_ns() + 1'000'000);
          const bool starves = who == (process == caller ? Starves::kCaller : Starves::kCallee);
          if (starves && is_frozen) system.set_stood_still_ns(system.stood_still_ns() + 900'000'000);
          if (starves && !is_frozen) system.set_loop_delay_ns(system.loop_delay_ns() + 900'000'000);
        }
        verdicts = rig.engine().diagnose(rig.snapshot());
      }
      for (const Verdict& verdict : verdicts) {
        if (who != Starves::kNobody) EXPECT_NE(verdict.kind(), Verdict::LINK) << proto::describe(verdict);
        if (who == Starves::kCaller) EXPECT_NE(verdict.server(), "server 2") << proto::describe(verdict);
      }
      if (who == Starves::kNobody) {
        ASSERT_THAT(verdicts, SizeIs(1));
        EXPECT_EQ(verdicts[0].kind(), serves_others ? Verdict::LINK : Verdict::NOT_SERVED);
      }
    }
}

TEST(Hearing, ACalleeThatHasServedNobodySinceIsNamedWithoutItsCaller) {
  // A server that hears nothing any more: what it served before says nothing of now.
  ReportRig rig;
  proto::SightRole& role = *rig.report(rig.server(2)).add_roles();
  role.set_role(7);
  role.set_name("serve.ReadChunk");
  rig.report(rig.server(2)).set_all_live(false);
  for (uint64_t round = 0; round < 6; round++) {
    role.set_begun(100 + round);
    ASSERT_THAT(rig.engine().diagnose(rig.snapshot()), IsEmpty());
  }
  const uint64_t caller = rig.server(1);
  rig.call(rig.task(caller, "chunkserver.repair_chunk"), proto::WAIT_CALL, 2);
  std::vector<Verdict> verdicts;
  for (uint64_t second = 1; second <= 12; second++) {
    // It is asked for everything once somebody is missed there.
    rig.report(rig.server(2)).set_all_live(second > 4);
    for (proto::SightLive& record : *rig.report(caller).mutable_live()) {
      record.set_age_ns(second * 1'000'000'000);
      record.set_still_ns(record.age_ns());
    }
    verdicts = rig.engine().diagnose(rig.snapshot());
    for (const Verdict& verdict : verdicts)
      EXPECT_EQ(verdict.kind(), Verdict::NOT_SERVED) << proto::describe(verdict);
    if (second >= 6) EXPECT_THAT(verdicts, SizeIs(1)) << "after " << second << " s";
  }
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].server(), "server 2");
  EXPECT_EQ(verdicts[0].peer(), "");
  EXPECT_EQ(verdicts[0].confidence(), Verdict::LIKELY);
  // It hears again, others sooner than this caller, whose packets TCP repeats ever more seldom.
  for (uint64_t second = 13; second <= 20; second++) {
    role.set_begun(100 + second);
    for (const Verdict& verdict : rig.engine().diagnose(rig.snapshot()))
      EXPECT_NE(verdict.kind(), Verdict::LINK) << "after " << second << " s: " << proto::describe(verdict);
  }
}

TEST(Hearing, WhatCommandsAskedThatAreOverSaysNothingOfTheCallee) {
  ReportRig rig;
  rig.call(rig.task(rig.server(1), "chunkserver.repair_chunk"), proto::WAIT_CALL, 2);
  for (const int number : {5, 6}) {  // they were interrupted, and could not say goodbye
    const uint64_t command = rig.server(number);
    rig.report(command).set_kind("client");
    rig.call(rig.task(command, "client.stat"), proto::WAIT_CALL, 2);
    rig.silence(command, 20s);
  }
  const auto verdicts = while_it_serves_others(rig, rig.server(2));
  const auto links = std::ranges::count(verdicts, Verdict::LINK, &Verdict::kind);
  const auto not_served = std::ranges::count(verdicts, Verdict::NOT_SERVED, &Verdict::kind);
  EXPECT_EQ(links, 1) << "the one who still waits does not hear the callee, which serves others";
  EXPECT_EQ(not_served, 0);
}

TEST(Hearing, RequestsOfManyThatACalleeHasNoTaskForAreNotServed) {
  ReportRig rig;
  rig.server(2);
  for (const int number : {1, 3, 4})
    rig.call(rig.task(rig.server(number), "chunkserver.repair_chunk"), proto::WAIT_CALL, 2);
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::NOT_SERVED);
  EXPECT_EQ(verdicts[0].server(), "server 2");
}

TEST(Hearing, WhoDoesNotShowEverythingIsAskedBeforeItIsBlamed) {
  ReportRig rig;
  const uint64_t callee = rig.server(2);
  rig.call(rig.task(rig.server(1), "chunkserver.repair_chunk"), proto::WAIT_CALL, 2);
  rig.report(callee).set_all_live(false);
  EXPECT_THAT(rig.diagnose(), IsEmpty());
  EXPECT_TRUE(rig.engine().wants_everything(callee));
  rig.report(callee).set_all_live(true);
  for (int round = 0; round < 3; round++)  // whether it serves anybody has to be seen
    EXPECT_THAT(rig.engine().diagnose(rig.snapshot()), IsEmpty());
  EXPECT_THAT(rig.diagnose(), SizeIs(1));
  // It goes on to be asked as long as a verdict rests on it: else the verdict would come and go.
  EXPECT_TRUE(rig.engine().wants_everything(callee));
}

TEST(Hearing, TwoThatDoNotHearEachOtherAreALinkThoughNobodyElseAsksThemAnything) {
  for (const bool both : {false, true}) {
    ReportRig rig;
    rig.server(2);
    rig.call(rig.task(rig.server(1), "chunkserver.repair_chunk"), proto::WAIT_CALL, 2);
    if (both) rig.call(rig.task(rig.server(2), "chunkserver.repair_chunk"), proto::WAIT_CALL, 1);
    std::vector<Verdict> verdicts;
    for (int round = 0; round < 6; round++)  // whether one of them serves anybody has to be seen
      verdicts = rig.engine().diagnose(rig.snapshot());
    ASSERT_THAT(verdicts, SizeIs(1));
    EXPECT_EQ(verdicts[0].kind(), both ? Verdict::LINK : Verdict::NOT_SERVED);
    const std::set<std::string> named{verdicts[0].server(), verdicts[0].peer()};
    EXPECT_EQ(named, both ? std::set<std::string>({"server 1", "server 2"})
                          : std::set<std::string>({"server 2", ""}));
    EXPECT_EQ(verdicts[0].confidence(), both ? Verdict::CERTAIN : Verdict::LIKELY);
  }
}

TEST(Hearing, WhoIsCutOffFromAllIsNoLinkThoughItMissesOneOfThemItself) {
  for (const bool both_ways : {true, false}) {
    ReportRig rig;
    for (const int other : {1, 3}) {
      rig.call(rig.task(rig.server(other), "chunkserver.repair_chunk"), proto::WAIT_CALL, 2);
      if (other == 1 || both_ways)
        rig.call(rig.task(rig.server(2), "chunkserver.repair_chunk"), proto::WAIT_CALL, other);
    }
    bool not_served = false;
    for (const Verdict& verdict : rig.diagnose()) {
      EXPECT_FALSE(verdict.kind() == Verdict::LINK && verdict.confidence() == Verdict::CERTAIN)
          << proto::describe(verdict);
      not_served = not_served || (verdict.kind() == Verdict::NOT_SERVED && verdict.server() == "server 2");
    }
    EXPECT_TRUE(not_served);
  }
}

/// As an idle chunkserver is asked: by one other every few seconds, and by chance for longer by nobody.
class IdleServer {
 public:
  IdleServer(ReportRig& rig, int number) : rig_(rig), process_(rig.server(number)) {
    proto::SightRole& role = *rig.report(process_).add_roles();
    role.set_role(7);
    role.set_name("serve.CheckPeer");
    role.set_begun(100);
  }
  /// A second passes, in which it is asked or not.
  std::vector<Verdict> second(bool asked) {
    proto::SightRole& role = *rig_.report(process_).mutable_roles(0);
    role.set_begun(role.begun() + (asked ? 1 : 0));
    return rig_.engine().diagnose(rig_.snapshot());
  }

 private:
  ReportRig& rig_;
  uint64_t process_;
};

TEST(Hearing, AnIdleServerThatWasNotAskedForAWhileWasNotDeaf) {
  ReportRig rig;
  IdleServer server(rig, 2);
  for (const int pause : {5, 9, 3, 7, 4})
    for (int second = 1; second <= pause; second++)
      (void)server.second(second == pause);
  const uint64_t caller = rig.server(1);
  rig.call(rig.task(caller, "chunkserver.repair_chunk", 0, 77, 1s), proto::WAIT_CALL, 2);
  std::vector<Verdict> verdicts;
  for (int second = 1; second <= 18; second++) {
    for (proto::SightLive& record : *rig.report(caller).mutable_live()) {
      record.set_age_ns(static_cast<uint64_t>(second) * 1'000'000'000);
      record.set_still_ns(record.age_ns());
    }
    verdicts = server.second(second == 7 || second == 12 || second == 17);
  }
  ASSERT_THAT(verdicts, SizeIs(1)) << "it serves others, and this request was lost";
  EXPECT_EQ(verdicts[0].kind(), Verdict::LINK);
  EXPECT_THAT((std::vector{verdicts[0].server(), verdicts[0].peer()}),
              UnorderedElementsAre("server 1", "server 2"));
}

TEST(Hearing, AServerThatWasStartedAgainIsNotAskedForWhatTheOneBeforeItWasSent) {
  for (const bool is_new : {true, false}) {
    ReportRig rig;
    for (const int number : {1, 3})
      rig.call(rig.task(rig.server(number), "chunkserver.repair_chunk"), proto::WAIT_CALL, 2);
    if (is_new) rig.report(rig.server(2)).set_uptime_ns(5'000'000'000);
    EXPECT_THAT(rig.diagnose(), SizeIs(is_new ? 0 : 1));
  }
}

TEST(Hearing, ProcessesOfOneClientMachineAreOneCaller) {
  for (const bool one_machine : {true, false}) {
    ReportRig rig;
    for (const char* name : {"mount 17", "client 18"}) {
      const uint64_t client = rig.process("client", name, "");
      rig.report(client).set_host(one_machine ? "workstation" : name);
      rig.call(rig.task(client, "client.read"), proto::WAIT_CALL, 2);
    }
    const auto verdicts = while_it_serves_others(rig, rig.server(2));
    ASSERT_FALSE(verdicts.empty());
    for (const Verdict& verdict : verdicts)
      EXPECT_EQ(verdict.kind(), one_machine ? Verdict::LINK : Verdict::NOT_SERVED)
          << proto::describe(verdict);
  }
}

TEST(Hearing, WhoMissesSeveralServersThatNobodyElseMissesAccusesNoneOfThem) {
  ReportRig rig;
  const uint64_t caller = rig.server(1);
  for (const int number : {2, 3}) {
    rig.server(number);
    rig.call(rig.task(caller, "chunkserver.repair_chunk"), proto::WAIT_CALL, number);
  }
  for (int round = 0; round < 8; round++)  // whether they serve anybody has to be seen
    for (const Verdict& verdict : rig.engine().diagnose(rig.snapshot())) {
      EXPECT_NE(verdict.server(), "server 2") << proto::describe(verdict);
      EXPECT_NE(verdict.server(), "server 3") << proto::describe(verdict);
    }
}

TEST(Hearing, WhoseOtherRequestsAreAnsweredHearsTheCallee) {
  ReportRig rig;
  const uint64_t caller = rig.server(1), callee = rig.server(2);
  rig.call(rig.task(caller, "chunkserver.repair_chunk"), proto::WAIT_CALL, 2);
  std::vector<Verdict> verdicts;
  for (int second = 1; second <= 6; second++) {
    rig.device(caller, ReportRig::address(2)).set_peer(true);
    rig.device(caller, ReportRig::address(2)).set_answers(10 + second);
    verdicts = while_it_serves_others(rig, callee);
  }
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::NOT_SERVED) << "nothing is wrong with the link";
  EXPECT_EQ(verdicts[0].server(), "server 2");
}

TEST(Hearing, ARequestThatWasServedToItsEndNamesWhatServedItAndNotTheCaller) {
  for (const uint64_t ended_ago : {uint64_t{5'000'000'000}, uint64_t{500'000'000}}) {
    ReportRig rig;
    const uint64_t callee = rig.server(2);
    const uint64_t span = rig.call(rig.task(rig.server(1), "repair_manager.repair"), proto::WAIT_CALL, 2);
    (void)rig.engine().diagnose(rig.snapshot());
    EXPECT_EQ(rig.engine().wants_to_know_of(callee), std::vector<uint64_t>{span});
    proto::SightServed& served = *rig.report(callee).add_served();
    served.set_call(span);
    served.set_region("serve.RepairChunk");
    served.set_ended_ago_ns(ended_ago);
    const auto verdicts = while_it_serves_others(rig, callee);
    ASSERT_THAT(verdicts, SizeIs(1));
    const bool is_lost = ended_ago > 1'000'000'000;
    EXPECT_EQ(verdicts[0].kind(), is_lost ? Verdict::UNANSWERED : Verdict::LINK)
        << "an answer may have been on its way when the caller reported";
    if (!is_lost) continue;
    EXPECT_EQ(verdicts[0].server(), "server 2");
    EXPECT_EQ(verdicts[0].peer(), "");
    EXPECT_EQ(verdicts[0].region(), "serve.RepairChunk");
    EXPECT_THAT(proto::describe(verdicts[0]),
                HasSubstr("server 2: has handled a request in serve.RepairChunk"));
  }
}

/// Server 1 gives up a request to server 2 after eight seconds.
struct GivenUp : ReportRig {
  uint64_t caller = server(1), callee = server(2);
  RigTask asking = task(caller, "chunkserver.repair_chunk", 0, 77, 8s);
  uint64_t span = call(asking, proto::WAIT_CALL, 2);
  proto::SightRole& serves = *report(callee).add_roles();
  bool others_answered = false;  ///< further calls of the caller are answered meanwhile

  GivenUp() {
    serves.set_role(7);
    serves.set_name("serve.ReadChunk");
    device(caller, address(2)).set_peer(true);
  }
  /// Rounds pass while it waits, and after it has given up; returns what is found in the last one.
  std::vector<Verdict> run(bool others, Duration unwell = 0s) {
    const proto::SightLive root = live(asking);
    proto::SightLive waiting = report(caller).live(1);
    for (int second = 1; second <= 8; second++) {
      serves.set_begun(100 + (others ? second : 0));
      device(caller, address(2)).set_answers(others_answered ? second : 0);
      report(caller).clear_live();
      for (proto::SightLive record : {root, waiting}) {
        record.set_age_ns(1'000'000'000ull * second);
        record.set_still_ns(record.age_ns());
        *report(caller).add_live() = record;
      }
      (void)engine().diagnose(snapshot());
    }
    if (unwell > 0s) report(callee).mutable_loop()->set_stalled_ns(static_cast<uint64_t>(unwell.count()));
    waiting.set_age_ns(8'000'000'000);
    waiting.set_ended_ago_ns(1);
    waiting.set_outcome(static_cast<uint32_t>(Code::kDeadlineExceeded));
    device(caller, address(2)).set_completed(20);  // so it counts, but as no answer
    report(caller).clear_live();
    *report(caller).add_live() = waiting;
    (void)engine().diagnose(snapshot());
    report(caller).clear_live();
    report(callee).clear_loop();
    return diagnose();
  }
};

TEST(Hearing, ARequestThatWasGivenUpUnheardNamesTheLinkAndHoldsNobodyUp) {
  GivenUp rig;
  const auto verdicts = rig.run(/*others=*/true);
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::LINK);
  EXPECT_THAT((std::vector{verdicts[0].server(), verdicts[0].peer()}),
              UnorderedElementsAre("server 1", "server 2"));
  EXPECT_TRUE(verdicts[0].masked());
  EXPECT_NE(verdicts[0].confidence(), Verdict::CERTAIN) << "the callee was not asked for everything in time";
  EXPECT_THAT(verdicts[0].chain(0).state(), HasSubstr("deadline"));
}

TEST(Hearing, RequestsOfSeveralThatWereGivenUpUnheardNameTheCalleeAlone) {
  // Connections that exist are served, and new ones dropped.
  GivenUp rig;
  ASSERT_THAT(rig.run(/*others=*/true), SizeIs(1));
  rig.call(rig.task(rig.server(3), "chunkserver.repair_chunk"), proto::WAIT_CALL, 2);
  for (const Verdict& verdict : rig.diagnose()) {
    EXPECT_EQ(verdict.kind(), Verdict::NOT_SERVED) << proto::describe(verdict);
    EXPECT_EQ(verdict.server(), "server 2");
  }
}

TEST(Hearing, ALinkIsNotNamedBesideAServerAtItsEndThatServesNobody) {
  GivenUp rig;
  ASSERT_THAT(rig.run(/*others=*/true), SizeIs(1));
  for (const int number : {3, 4})
    rig.call(rig.task(rig.server(number), "chunkserver.repair_chunk"), proto::WAIT_CALL, 2);
  const auto verdicts = rig.diagnose();
  ASSERT_THAT(verdicts, SizeIs(1)) << "server 1 is healthy";
  EXPECT_EQ(verdicts[0].kind(), Verdict::NOT_SERVED);
  EXPECT_EQ(verdicts[0].server(), "server 2");
}

TEST(Hearing, WhatWasGivenUpIsForgottenSoonOrWhenTheNextRequestIsHeard) {
  for (const bool heard : {false, true}) {
    GivenUp rig;
    ASSERT_THAT(rig.run(/*others=*/true), SizeIs(1));
    if (heard) {
      const RigTask again = rig.task(rig.caller, "chunkserver.repair_chunk", 0, 78, 900ms);
      rig.task(rig.callee, "chunkserver.read_chunk", rig.call(again, proto::WAIT_CALL, 2), 78, 800ms);
    } else {
      rig.sleep(12s);
    }
    EXPECT_THAT(rig.diagnose(), IsEmpty());
  }
}

TEST(Hearing, WhatWasGivenUpSaysNothingOfAProcessThatCameAfterTheCallee) {
  GivenUp rig;
  ASSERT_THAT(rig.run(/*others=*/true), SizeIs(1));
  rig.report(rig.callee).set_process(4711);  // started again at the same address
  EXPECT_THAT(rig.diagnose(), IsEmpty());
}

TEST(Hearing, ARequestThatWasGivenUpAccusesNobodyOfWhomElseNothingIsKnown) {
  EXPECT_THAT(GivenUp().run(/*others=*/false), IsEmpty()) << "the callee served nobody: it may be slow";

  GivenUp heard;
  heard.moves(heard.task(heard.callee, "chunkserver.read_chunk", heard.span));
  EXPECT_THAT(heard.run(/*others=*/true), IsEmpty()) << "the callee had a task for it";

  GivenUp held;
  EXPECT_THAT(held.run(/*others=*/true, /*unwell=*/6s), IsEmpty()) << "the callee stood still as a whole";

  GivenUp started;
  started.report(started.callee).set_uptime_ns(4'000'000'000);
  EXPECT_THAT(started.run(/*others=*/true), IsEmpty()) << "who was asked is not there any more";

  GivenUp answered;
  answered.others_answered = true;
  EXPECT_THAT(answered.run(/*others=*/true), IsEmpty()) << "other answers came through";
}

}  // namespace
}  // namespace kintsugi::progress

// A process that waits for a processor is not one that works slowly: which of the two is named.
#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "monitoring/progress/evidence/shortage.h"
#include "tests/monitoring/report_rig.h"

namespace kintsugi::progress {
namespace {

using proto::Verdict;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::UnorderedElementsAre;

/// Four servers that call the metaserver, all on one machine; totals come every ten seconds, what the kernel says every second.
struct BusyMachine : ReportRig {
  static constexpr int kServers = 4;
  static constexpr uint64_t kCalls = 500;  ///< of a server in a window
  std::mt19937_64 random{5};
  uint64_t meta = metaserver();
  double call_ms = 2;
  std::map<uint64_t, double> delayed;  ///< by process: of each second
  double ran = 0.1;                    ///< of each second, by every event loop
  double pressure = 0;
  std::vector<Verdict> verdicts;

  BusyMachine() {
    for (int i = 1; i <= kServers; i++)
      place(server(i));
    place(meta);
  }
  void place(uint64_t process) {
    report(process).set_host("rack1-a");
    report(process).mutable_system()->set_machine("boot-1");
  }

  void calls(uint64_t process) {
    usual(process, "heartbeat", proto::WAIT_CALL, 0);  // enters the state
    proto::SightReport& told = report(process);
    if (told.waits_size() == 0) {
      told.add_waits()->set_target("10.0.0.100:6000");
      for (const proto::SightState& known : told.new_states())
        if (known.wait() == proto::WAIT_CALL) told.mutable_waits(0)->set_state(known.state());
    }
    const double noise = 0.8 + 0.4 * static_cast<double>(random() % 1000) / 1000;
    proto::SightWaitTotal& total = *told.mutable_waits(0);
    total.set_count(total.count() + kCalls);
    total.set_ns(total.ns() + static_cast<uint64_t>(call_ms * 1e6 * kCalls * noise));
  }

  void second(uint64_t process) {
    proto::SightReport& told = report(process);
    told.set_uptime_ns(told.uptime_ns() + 1'000'000'000);
    proto::SightSystem& system = *told.mutable_system();
    system.set_loop_cpu_ns(system.loop_cpu_ns() + static_cast<uint64_t>(ran * 1e9));
    system.set_loop_delay_ns(system.loop_delay_ns() + static_cast<uint64_t>(delayed[process] * 1e9));
    system.set_delay_ns(system.loop_delay_ns());
    system.set_pressure_ns(system.pressure_ns() + static_cast<uint64_t>(pressure * 1e9));
  }

  void windows(int count) {
    for (int window = 0; window < count; window++) {
      for (int i = 1; i <= kServers; i++)
        calls(server(i));
      for (int tick = 0; tick < 10; tick++) {  // a second each
        for (int i = 1; i <= kServers; i++)
          second(server(i));
        second(meta);
        verdicts = engine().diagnose(snapshot());
      }
    }
  }
};

TEST(LackOfAProcessor, WhoIsSlowAndHasItsProcessorIsNamed) {
  BusyMachine rig;
  rig.windows(12);
  EXPECT_THAT(rig.verdicts, IsEmpty());
  rig.call_ms = 10;
  rig.windows(6);
  ASSERT_THAT(rig.verdicts, SizeIs(1));
  EXPECT_EQ(rig.verdicts[0].kind(), Verdict::SLOW);
  EXPECT_EQ(rig.verdicts[0].server(), "metaserver");
  EXPECT_NEAR(rig.verdicts[0].factor(), 5, 1.5);
}

TEST(LackOfAProcessor, OfAWholeMachineNamesTheMachineAndWhoSuffers) {
  BusyMachine rig;
  rig.windows(12);
  rig.call_ms = 10;  // the same as above, but the metaserver waits for a processor half of the time
  rig.delayed[rig.meta] = 0.9;
  for (int i = 2; i <= BusyMachine::kServers; i++)
    rig.delayed[rig.server(i)] = 0.5;
  rig.pressure = 0.95;
  rig.windows(6);
  ASSERT_THAT(rig.verdicts, SizeIs(1));
  const Verdict& verdict = rig.verdicts[0];
  EXPECT_EQ(verdict.kind(), Verdict::HOST);
  EXPECT_EQ(verdict.server(), "machine rack1-a");
  EXPECT_EQ(verdict.process(), 0U) << "no process is to blame";
  EXPECT_THAT(verdict.servers_waiting(),
              UnorderedElementsAre("metaserver", "server 2", "server 3", "server 4"));
  EXPECT_THAT(verdict.processes_waiting(),
              UnorderedElementsAre(rig.meta, rig.server(2), rig.server(3), rig.server(4)));
  EXPECT_EQ(verdict.confidence(), Verdict::CERTAIN);
  EXPECT_THAT(verdict.why(), Contains(HasSubstr("waited for a processor for 95 % of the time")));

  rig.call_ms = 2;
  rig.delayed.clear();
  rig.pressure = 0;
  rig.windows(3);
  EXPECT_THAT(rig.verdicts, IsEmpty());
}

TEST(LackOfAProcessor, WhatItExplainsStandsBelowTheVerdictOnTheMachine) {
  BusyMachine rig;
  rig.windows(12);
  rig.call_ms = 10;
  rig.delayed[rig.meta] = 0.9;
  for (int i = 2; i <= BusyMachine::kServers; i++)
    rig.delayed[rig.server(i)] = 0.5;
  rig.windows(6);
  ASSERT_THAT(rig.verdicts, SizeIs(1));
  Verdict losses;
  losses.set_kind(Verdict::LOSSES);
  losses.set_server("server 2");
  losses.set_process(rig.server(2));
  losses.add_why("7 of 1200 segments were lost");
  Verdict elsewhere = losses;
  elsewhere.set_process(rig.process("chunkserver", "server 9", "10.0.0.9:7000"));
  elsewhere.set_server("server 9");
  rig.report(rig.server(9)).set_host("rack2-a");
  tell_what_shortages_explain({losses, elsewhere}, rig.snapshot(), rig.verdicts);
  EXPECT_THAT(rig.verdicts[0].why(), Contains("it explains of server 2: 7 of 1200 segments were lost"));
  EXPECT_THAT(rig.verdicts[0].why(), Not(Contains(HasSubstr("server 9"))));
  ASSERT_THAT(rig.verdicts, SizeIs(1));
}

TEST(LackOfAProcessor, OfMostOfAMachineExplainsWhatAnyProcessOfItDoesLate) {
  BusyMachine rig;
  ProcessorShares shares;
  const auto seconds = [&](int count) {
    for (int second = 0; second < count; second++) {
      for (int i = 1; i <= BusyMachine::kServers; i++)
        rig.second(rig.server(i));
      rig.second(rig.meta);
      shares.update(rig.snapshot());
    }
  };
  const auto explains = [&](uint64_t process) {
    const TimePoint now = rig.snapshot().taken;
    return Shortages(shares, now - 20s).explains(process);
  };
  seconds(30);
  EXPECT_EQ(explains(rig.meta), Shortage::kNone);
  rig.delayed[rig.server(1)] = 0.5;
  seconds(20);
  EXPECT_EQ(explains(rig.server(1)), Shortage::kOfProcess);
  EXPECT_EQ(explains(rig.meta), Shortage::kNone) << "one of four others";
  rig.delayed[rig.server(2)] = 0.5;
  seconds(20);
  const uint64_t newcomer = rig.server(9);
  rig.place(newcomer);
  rig.second(newcomer);
  shares.update(rig.snapshot());
  ASSERT_EQ(shares.machine_of(newcomer), shares.machine_of(rig.meta));
  EXPECT_EQ(explains(newcomer), Shortage::kNone) << "two of five others: it is none of them";
  rig.delayed[rig.server(3)] = 0.5;
  seconds(20);
  EXPECT_EQ(explains(rig.meta), Shortage::kOfMachine);
  EXPECT_EQ(explains(rig.server(1)), Shortage::kOfMachine);
  EXPECT_EQ(explains(12345), Shortage::kNone) << "it tells nothing";
  rig.delayed.clear();
  seconds(40);
  EXPECT_EQ(explains(rig.meta), Shortage::kNone) << "it is over";
}

TEST(LackOfAProcessor, OfAProcessThatHardlyRunsIsSaidBeforeAnybodyWaitsForIt) {
  struct Case {
    double delayed, ran;
    int of;  ///< servers up to this one
    bool is_named;
  };
  for (const auto& [delayed, ran, of, is_named] :
       {Case{0.95, 0.001, 1, true},
        // On a machine with ten times as much work as processors everybody gets a little.
        Case{0.85, 0.085, 1, false}, Case{0.3, 0.001, 1, false},
        // Nobody has any: that is the machine's.
        Case{0.95, 0.001, 4, false}}) {
    BusyMachine rig;
    rig.ran = ran;
    rig.windows(1);
    for (int i = 1; i <= of; i++)
      rig.delayed[rig.server(i)] = delayed;
    for (int second = 0; second < 5; second++) {
      for (int i = 1; i <= BusyMachine::kServers; i++)
        rig.second(rig.server(i));
      rig.second(rig.meta);
      rig.verdicts = rig.engine().diagnose(rig.snapshot());
    }
    ASSERT_THAT(rig.verdicts, SizeIs(is_named ? 1 : 0)) << delayed << " of the time delayed, ran " << ran;
    if (!is_named) continue;
    EXPECT_EQ(rig.verdicts[0].kind(), Verdict::RESOURCE);
    EXPECT_EQ(rig.verdicts[0].server(), "server 1");
  }
}

/// Returns the verdicts `seconds` after server 1 began to wait for its disk.
std::vector<Verdict> with_a_disk_that_does_not_answer(
    BusyMachine& rig, int seconds, const std::function<void(int)>& each = [](int) {}) {
  const uint64_t server = rig.server(1);
  const RigTask commit = rig.task(server, "chunkserver.commit", 0, 77, 0s);
  rig.disk(commit, "data/chunks");
  const RigTask caller = rig.task(rig.server(2), "client.write", 0, 77, 0s);
  rig.live(commit).set_parent(rig.call(caller, proto::WAIT_CALL, 1));
  std::vector<Verdict> found;
  for (int second = 1; second <= seconds; second++) {
    each(second);
    for (const uint64_t process : {server, rig.server(2)})
      for (proto::SightLive& live : *rig.report(process).mutable_live()) {
        live.set_age_ns(static_cast<uint64_t>(second) * 1'000'000'000);
        live.set_still_ns(live.age_ns());
      }
    rig.device(server, "data/chunks").set_submitted(9);
    rig.device(server, "data/chunks").set_oldest_pending_ns(static_cast<uint64_t>(second) * 1'000'000'000);
    for (int i = 1; i <= BusyMachine::kServers; i++)
      rig.second(rig.server(i));
    rig.second(rig.meta);
    found = rig.engine().diagnose(rig.snapshot());
  }
  return found;
}

TEST(LackOfAProcessor, WhoHardlyRunsIsNamedAndNotTheDiskThatItWaitsFor) {
  BusyMachine rig;
  rig.ran = 0.001;
  rig.windows(1);
  rig.delayed[rig.server(1)] = 0.95;
  const auto verdicts = with_a_disk_that_does_not_answer(rig, 10);
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].kind(), Verdict::RESOURCE);
  EXPECT_EQ(verdicts[0].server(), "server 1");
  EXPECT_EQ(verdicts[0].device(), "");
  EXPECT_EQ(verdicts[0].region(), "") << "its code is not at fault either";
  EXPECT_EQ(verdicts[0].waiters(), 1U) << "who waits for it is told all the same";
  EXPECT_THAT(verdicts[0].why(), Contains(HasSubstr("waited for a processor for 95 %")));

  rig.delayed[rig.server(1)] = 0;
  const auto later = with_a_disk_that_does_not_answer(rig, 10);
  ASSERT_THAT(later, SizeIs(1)) << "with a processor it is the disk";
  EXPECT_EQ(later[0].kind(), Verdict::DEVICE);
}

TEST(LackOfAProcessor, ADiskThatDoesNotAnswerIsNamedAllTheSameUnlessItsProcessHardlyRan) {
  struct Case {
    double delayed, ran;
    int from;  ///< second from which it is delayed so
  };
  for (const auto& [delayed, ran, from] : {// It waits long, and runs enough to hear of an answer.
                                           Case{0.85, 0.085, 0}, Case{0.3, 0.001, 0},
                                           // The disk had not answered before.
                                           Case{0.95, 0.001, 8}}) {
    BusyMachine rig;
    rig.ran = ran;
    rig.windows(1);
    const auto verdicts =
        with_a_disk_that_does_not_answer(rig, 12, [&, from = from, delayed = delayed](int second) {
          if (second > from) rig.delayed[rig.server(1)] = delayed;
        });
    ASSERT_FALSE(verdicts.empty());
    EXPECT_EQ(verdicts[0].kind(), Verdict::DEVICE)
        << delayed << " of the time delayed, since second " << from;
    EXPECT_EQ(verdicts[0].device(), "data/chunks");
  }
}

TEST(LackOfAProcessor, IsNotCertainWhenTheMachineSaysNothingOfIt) {
  BusyMachine rig;
  rig.windows(12);
  rig.call_ms = 10;
  rig.delayed[rig.meta] = 0.9;
  for (int i = 2; i <= BusyMachine::kServers; i++)
    rig.delayed[rig.server(i)] = 0.9;
  rig.windows(6);
  ASSERT_THAT(rig.verdicts, SizeIs(1));
  EXPECT_EQ(rig.verdicts[0].kind(), Verdict::HOST);
  EXPECT_EQ(rig.verdicts[0].confidence(), Verdict::UNSURE);
}

TEST(LackOfAProcessor, OfOneProcessBesideOthersThatHaveTheirsNamesTheProcess) {
  BusyMachine rig;
  rig.windows(12);
  rig.call_ms = 10;
  rig.delayed[rig.meta] = 0.9;
  rig.pressure = 0.95;
  rig.windows(6);
  ASSERT_THAT(rig.verdicts, SizeIs(1));
  EXPECT_EQ(rig.verdicts[0].kind(), Verdict::RESOURCE);
  EXPECT_EQ(rig.verdicts[0].server(), "metaserver");
}

TEST(LackOfAProcessor, OfOneProcessByFarMoreThanOfTheOthersNamesTheProcess) {
  BusyMachine rig;
  rig.windows(12);
  rig.call_ms = 10;
  for (int i = 1; i <= BusyMachine::kServers; i++)
    rig.delayed[rig.server(i)] = 0.1;  // all have to wait for as long as they run
  rig.delayed[rig.meta] = 0.9;         // this one for nine times as long
  rig.pressure = 0.95;
  rig.windows(6);
  ASSERT_THAT(rig.verdicts, SizeIs(1));
  EXPECT_EQ(rig.verdicts[0].kind(), Verdict::RESOURCE);
  EXPECT_EQ(rig.verdicts[0].server(), "metaserver");
}

TEST(LackOfAProcessor, OfThoseWhoWaitExcusesWhoTheyWaitFor) {
  BusyMachine rig;
  rig.windows(12);
  rig.call_ms = 10;
  for (int i = 1; i <= BusyMachine::kServers; i++)
    rig.delayed[rig.server(i)] = 0.6;
  rig.pressure = 0.9;
  rig.windows(6);
  ASSERT_THAT(rig.verdicts, SizeIs(1));
  EXPECT_EQ(rig.verdicts[0].kind(), Verdict::HOST);
  EXPECT_THAT(rig.verdicts[0].servers_waiting(),
              UnorderedElementsAre("server 1", "server 2", "server 3", "server 4"));
}

TEST(LackOfAProcessor, ALittleOfItExcusesNobody) {
  BusyMachine rig;
  rig.windows(12);
  rig.call_ms = 20;  // the four servers wait for the metaserver all the time
  rig.delayed[rig.meta] = 0.1;
  rig.pressure = 0.5;
  rig.windows(6);
  ASSERT_THAT(rig.verdicts, SizeIs(1));
  EXPECT_EQ(rig.verdicts[0].kind(), Verdict::SLOW);
  EXPECT_EQ(rig.verdicts[0].server(), "metaserver");
}

TEST(LackOfAProcessor, ALoopThatStandsStillForItIsNotSaidToRunOnWithoutEnd) {
  struct Case {
    double delayed, ran;
    Verdict::Kind kind;
  };
  for (const auto& [delayed, ran, kind] :
       {Case{0.95, 0.01, Verdict::RESOURCE}, Case{0.3, 0.1, Verdict::RUNNING},
        // Code that runs for a second in one place is a loop, however busy the machine is.
        Case{0.8, 0.2, Verdict::RUNNING}}) {
    BusyMachine rig;
    rig.windows(3);
    rig.delayed[rig.meta] = delayed;
    rig.ran = ran;
    for (uint64_t second = 1; second <= 6; second++) {
      rig.report(rig.meta).mutable_loop()->set_stalled_ns(second * 1'000'000'000);
      rig.second(rig.meta);
      rig.verdicts = rig.engine().diagnose(rig.snapshot());
    }
    ASSERT_THAT(rig.verdicts, SizeIs(1));
    EXPECT_EQ(rig.verdicts[0].kind(), kind) << delayed << " of the time delayed";
    EXPECT_EQ(rig.verdicts[0].server(), "metaserver");
  }
}

TEST(LackOfAProcessor, TotalsThatFallOrAreMissingExcuseNobody) {
  BusyMachine rig;
  rig.windows(12);
  rig.call_ms = 10;
  rig.delayed[rig.meta] = 0.9;
  for (int window = 0; window < 6; window++) {
    rig.report(rig.meta).mutable_system()->set_loop_delay_ns(0);
    rig.report(rig.meta).mutable_system()->set_machine("");
    rig.windows(1);
  }
  ASSERT_THAT(rig.verdicts, SizeIs(1));
  EXPECT_EQ(rig.verdicts[0].kind(), Verdict::SLOW);
}

}  // namespace
}  // namespace kintsugi::progress

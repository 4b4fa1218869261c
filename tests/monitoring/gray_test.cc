// Gray failures: what stands still again and again, and what others do not reach.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "monitoring/gray/pauses.h"
#include "monitoring/gray/stalls.h"
#include "monitoring/gray/unreached.h"

namespace kintsugi::gray {
namespace {

using proto::Verdict;

constexpr uint64_t kSecond = 1'000'000'000;

/// Processes of one machine that report each second how long they stood still in it.
struct Machine {
  PauseWatch watch;
  std::vector<Pausing> processes;
  TimePoint now{TimePoint(1h)};

  explicit Machine(size_t count) {
    for (size_t i = 1; i <= count; ++i)
      processes.push_back({.who = {i, i, "server-" + std::to_string(i), "chunkserver"}, .machine = "here"});
  }
  void second(size_t who, uint64_t stood_still_ns, double delayed = 0) {
    now += 1s;
    for (Pausing& process : processes) {
      process.at = now;
      process.delayed = delayed;
      if (who == 0 || process.who.process == who) process.stood_still_ns += stood_still_ns;
    }
    watch.look(processes, now);
  }
};

TEST(Pauses, AServerThatStandsStillMostOfTheTimeIsNamedAlone) {
  Machine machine(10);
  for (int i = 0; i < 30; ++i)
    machine.second(3, 0);
  EXPECT_TRUE(machine.watch.alarms(machine.now).empty());
  int seconds = 0;
  while (machine.watch.alarms(machine.now).empty() && seconds < 60) {
    machine.second(3, seconds % 2 == 0 ? 3 * kSecond / 2 : 0);  // 1.5 of 2 s
    ++seconds;
  }
  EXPECT_LE(seconds, 20);
  const auto found = machine.watch.alarms(machine.now);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind(), Verdict::PAUSES);
  EXPECT_EQ(found[0].server(), "server-3");
  EXPECT_EQ(found[0].confidence(), Verdict::CERTAIN);
  EXPECT_GT(found[0].factor(), 1.2);
  for (int i = 0; i < 30; ++i)
    machine.second(3, 0);
  EXPECT_TRUE(machine.watch.alarms(machine.now).empty()) << "it has run for half a minute";
}

TEST(Pauses, OneLongStopIsNotCalledAPauseAfterwards) {
  Machine machine(10);
  for (int i = 0; i < 10; ++i)
    machine.second(4, 0);
  machine.second(4, 12 * kSecond);
  for (int i = 0; i < 30; ++i) {
    EXPECT_TRUE(machine.watch.alarms(machine.now).empty());
    machine.second(4, 0);
  }
}

TEST(Pauses, AProcessWithoutProcessorIsLateForAnotherReason) {
  Machine machine(10);
  for (int i = 0; i < 60; ++i) {
    machine.second(5, kSecond / 2, 0.45);
    EXPECT_TRUE(machine.watch.alarms(machine.now).empty());
  }
}

TEST(Pauses, OfAMachineThatLacksAProcessorAreThoseOfOneOnlyByWhatTheOthersHaveNot) {
  Machine machine(6);
  for (Pausing& process : machine.processes)
    process.machine_lacks_processor = true;
  // All are late by a third of the time; one of them stands still for most of it.
  for (int i = 0; i < 40; ++i) {
    for (Pausing& process : machine.processes)
      process.stood_still_ns += i % 2 == 0 ? kSecond * 7 / 10 : 0;
    machine.second(3, 0);
  }
  EXPECT_TRUE(machine.watch.alarms(machine.now).empty());
  EXPECT_EQ(machine.watch.excused(machine.now).size(), 6u) << "which the lack explains";
  for (int i = 0; i < 40; ++i) {
    for (Pausing& process : machine.processes)
      process.stood_still_ns += i % 2 == 0 ? kSecond * 7 / 10 : 0;
    machine.second(3, i % 2 == 0 ? kSecond : 0);
  }
  const auto found = machine.watch.alarms(machine.now);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].server(), "server-3");
}

TEST(Pauses, OfAllProcessesOfAMachineAreNotCertainlyTheirOwn) {
  Machine machine(4);
  for (int i = 0; i < 40; ++i)
    machine.second(0, i % 4 == 0 ? 2 * kSecond : 0);
  const auto found = machine.watch.alarms(machine.now);
  ASSERT_EQ(found.size(), 4u);
  for (const Verdict& verdict : found)
    EXPECT_EQ(verdict.confidence(), Verdict::LIKELY);
}

TEST(Pauses, AProcessThatWasStartedAgainHasNoneOfThePausesOfBefore) {
  Machine machine(3);
  for (int i = 0; i < 20; ++i)
    machine.second(2, kSecond / 2);
  ASSERT_EQ(machine.watch.alarms(machine.now).size(), 1u);
  machine.processes[1].who.process = 99;
  machine.processes[1].stood_still_ns = 0;
  for (int i = 0; i < 15; ++i)
    machine.second(2, 0);
  EXPECT_TRUE(machine.watch.alarms(machine.now).empty());
}

struct Disks {
  StallWatch watch;
  std::vector<Disk> disks;
  TimePoint now{TimePoint(1h)};

  explicit Disks(size_t count) {
    for (size_t i = 1; i <= count; ++i)
      disks.push_back({.of = {i, i, "server-" + std::to_string(i), "chunkserver"}, .name = "/disk"});
  }
  template <class Stalls>
  void seconds(int count, Stalls stalls) {
    for (int i = 0; i < count; ++i) {
      now += 1s;
      for (Disk& disk : disks) {
        disk.at = now;
        if (stalls(disk.of.process, i)) disk.stalls += 3;
      }
      watch.look(disks, now);
    }
  }
};

TEST(Stalls, ADiskThatStallsEveryTenSecondsIsNamed) {
  Disks disks(6);
  disks.seconds(20, [](uint64_t, int) { return false; });
  disks.seconds(35, [](uint64_t process, int second) { return process == 2 && second % 10 == 0; });
  const auto found = disks.watch.alarms(disks.now);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind(), Verdict::PAUSES);
  EXPECT_EQ(found[0].server(), "server-2");
  EXPECT_EQ(found[0].device(), "/disk");
  disks.seconds(61, [](uint64_t, int) { return false; });
  EXPECT_TRUE(disks.watch.alarms(disks.now).empty());
}

TEST(Stalls, OneStallOfSeveralSecondsIsOne) {
  Disks disks(6);
  disks.seconds(3, [](uint64_t, int) { return false; });
  disks.seconds(3, [](uint64_t process, int) { return process == 2; });
  disks.seconds(30, [](uint64_t, int) { return false; });
  EXPECT_TRUE(disks.watch.alarms(disks.now).empty());
}

TEST(Stalls, DisksThatAreAllBusyNameNobody) {
  Disks disks(6);
  disks.seconds(120, [](uint64_t process, int second) { return (second + int(process)) % 7 == 0; });
  EXPECT_TRUE(disks.watch.alarms(disks.now).empty());
}

TEST(Stalls, CoincidencesOfManyDisksDoNotHideABadOneOnTheirMachine) {
  Disks disks(30);
  for (size_t i = 0; i < 11; ++i)
    disks.disks[i].machine = "boot-1";
  // Ten neighbours stall once a minute each, at other times; the first disk six times.
  disks.seconds(120, [](uint64_t process, int second) {
    if (process == 1) return second % 10 == 3;
    return process <= 11 && second % 60 == (static_cast<int>(process) - 2) * 6;
  });
  const auto found = disks.watch.alarms(disks.now);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].server(), "server-1");
}

using Outcome = proto::SightCheck;

/// Ten servers, each of which checks one other every five seconds, and reports its last eight checks each second.
struct GrayServers {
  UnreachedWatch watch;
  std::map<uint64_t, Checks> reports;
  TimePoint now{TimePoint(1h)};
  int turn = 0;

  template <class Judge>
  void seconds(int count, Judge outcome) {
    for (int i = 0; i < count; ++i, ++turn) {
      now += 1s;
      for (uint64_t from = 1; from <= 10; ++from) {
        if ((turn + int(from)) % 5 != 0) continue;
        const uint64_t to = (from + static_cast<uint64_t>(turn) / 5 % 9) % 10 + 1;
        Checks& report = reports[from];
        report.process = from;
        report.caller = "server-" + std::to_string(from);
        proto::SightCheck check;
        check.set_number(report.latest.empty() ? 1 : report.latest.back().number() + 1);
        check.set_peer("10.0.0." + std::to_string(to));
        check.set_outcome(outcome(from, to));
        report.latest.push_back(check);
        if (report.latest.size() > 8) report.latest.erase(report.latest.begin());
      }
      std::vector<Checks> all;
      for (const auto& [from, report] : reports)
        all.push_back(report);
      watch.look(all, {}, now);
    }
  }
};

TEST(Unreached, AServerThatTakesNoNewConnectionsIsNamedWithinHalfAMinute) {
  GrayServers servers;
  servers.seconds(120, [](uint64_t, uint64_t) { return Outcome::ANSWERED; });
  EXPECT_TRUE(servers.watch.alarms(servers.now).empty());
  servers.seconds(40,
                  [](uint64_t, uint64_t to) { return to == 7 ? Outcome::UNCONNECTED : Outcome::ANSWERED; });
  const auto found = servers.watch.alarms(servers.now);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind(), Verdict::UNREACHED);
  EXPECT_EQ(found[0].server(), "10.0.0.7");
  EXPECT_EQ(found[0].region(), "new connections");
  EXPECT_EQ(found[0].confidence(), Verdict::CERTAIN);
  servers.seconds(60, [](uint64_t, uint64_t) { return Outcome::ANSWERED; });
  EXPECT_TRUE(servers.watch.alarms(servers.now).empty());
}

TEST(Unreached, WhatFailedWhileItHeardNothingIsForgottenOnceItAnswersAll) {
  GrayServers servers;
  servers.seconds(60, [](uint64_t, uint64_t) { return Outcome::ANSWERED; });
  servers.seconds(30,
                  [](uint64_t, uint64_t to) { return to == 7 ? Outcome::UNCONNECTED : Outcome::ANSWERED; });
  EXPECT_FALSE(servers.watch.alarms(servers.now).empty());
  servers.seconds(12, [](uint64_t, uint64_t) { return Outcome::ANSWERED; });
  for (int i = 0; i < 40; ++i) {
    EXPECT_TRUE(servers.watch.alarms(servers.now).empty()) << i;
    servers.seconds(1, [](uint64_t, uint64_t) { return Outcome::ANSWERED; });
  }
}

TEST(Unreached, LongMessagesThatVanishAreToldFromConnectionsThatDo) {
  GrayServers servers;
  servers.seconds(100, [](uint64_t, uint64_t to) { return to == 2 ? Outcome::CUT : Outcome::ANSWERED; });
  const auto found = servers.watch.alarms(servers.now);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].region(), "long messages");
}

TEST(Unreached, TwoCallersThatReachNobodyAccuseNobody) {
  GrayServers servers;
  for (int i = 0; i < 60; ++i) {
    servers.seconds(2, [](uint64_t from, uint64_t) {
      return from == 5 || from == 6 ? Outcome::UNCONNECTED : Outcome::ANSWERED;
    });
    EXPECT_TRUE(servers.watch.alarms(servers.now).empty());
  }
}

TEST(Unreached, ACallerThatReachesNobodyAccusesNobody) {
  GrayServers servers;
  for (int i = 0; i < 60; ++i) {
    servers.seconds(
        2, [](uint64_t from, uint64_t) { return from == 5 ? Outcome::UNCONNECTED : Outcome::ANSWERED; });
    EXPECT_TRUE(servers.watch.alarms(servers.now).empty());
  }
}

}  // namespace
}  // namespace kintsugi::gray

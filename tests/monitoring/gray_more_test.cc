// Gray failures: packets that are lost, errors that come at once, clocks that are wrong, and what commands tell.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "common/proto/verdict_advice.h"
#include "common/proto/verdicts.h"
#include "monitoring/gray/clocks.h"
#include "monitoring/gray/errors.h"
#include "monitoring/gray/losses.h"
#include "monitoring/gray/unreached.h"
#include "monitoring/sight/wall_jumps.h"
#include "tests/monitoring/hand_clock.h"

namespace kintsugi::gray {
namespace {

using proto::Verdict;

/// Eight servers that send to four machines, 50 segments a second to each.
struct Network {
  LossWatch watch;
  std::map<std::pair<uint64_t, int>, Link> links;
  TimePoint now{TimePoint(1h)};
  int second = 0;
  bool lacks_processor = false;  ///< all of them do

  /// `lost`: of the segments of a second, by server and machine.
  template <class Lost>
  void seconds(int count, Lost lost, uint64_t sent = 50) {
    for (int i = 0; i < count; ++i) {
      now += 1s;
      ++second;
      std::vector<Link> all;
      for (uint64_t server = 1; server <= 8; ++server) {
        for (int machine = 1; machine <= 4; ++machine) {
          Link& link = links[{server, machine}];
          link.server = {server, server, "server-" + std::to_string(server), "chunkserver"};
          link.machine = "10.0.0." + std::to_string(machine);
          link.source = std::to_string(server) + link.machine;
          link.segments += sent;
          link.lost += lost(server, machine, second);
          link.at = now;
          link.lacks_processor = lacks_processor;
          all.push_back(link);
        }
      }
      watch.look(all, now);
    }
  }
};

TEST(Losses, AServerThatLosesOnePacketInAHundredIsNamed) {
  Network network;
  network.seconds(60, [](uint64_t, int, int) { return 0; });
  EXPECT_TRUE(network.watch.alarms(network.now).empty());
  network.seconds(40,
                  [](uint64_t server, int, int second) { return server == 3 && second % 2 == 0 ? 1 : 0; });
  const auto found = network.watch.alarms(network.now);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind(), Verdict::LOSSES);
  EXPECT_EQ(found[0].server(), "server-3");
  EXPECT_EQ(found[0].peer(), "") << "it is with everybody";
  EXPECT_EQ(proto::advise(found[0]),
            "packets to and from server-3 are lost; no operation waits for it now. Check the network cards, "
            "cables and switch ports there.");
  network.seconds(60, [](uint64_t, int, int) { return 0; });
  EXPECT_TRUE(network.watch.alarms(network.now).empty());
}

TEST(Losses, WhatAKernelSendsAgainSinceNobodyHadAProcessorToTakeItIsNoLossUnlessItIsFarMore) {
  // One of 200 segments; and one of 50.
  for (const int every : {4, 1}) {
    Network network;
    network.lacks_processor = true;
    network.seconds(
        60, [&](uint64_t server, int, int second) { return server == 3 && second % every == 0 ? 1 : 0; });
    const bool is_far_more = every == 1;
    EXPECT_EQ(network.watch.alarms(network.now).size(), is_far_more ? 1u : 0u);
    const auto excused = network.watch.excused(network.now);
    ASSERT_EQ(excused.size(), is_far_more ? 0u : 4u) << "one for each machine";
    if (!is_far_more) EXPECT_EQ(excused[0].server(), "server-3");
  }
}

TEST(Losses, OfAServerThatLostPacketsBeforeAreNotExcusedByALackOfProcessorThatCameLater) {
  Network network;
  const auto lose = [](uint64_t server, int, int second) { return server == 3 && second % 4 == 0 ? 1 : 0; };
  network.seconds(60, lose);
  ASSERT_EQ(network.watch.alarms(network.now).size(), 1u);
  network.lacks_processor = true;
  network.seconds(60, lose);
  EXPECT_EQ(network.watch.alarms(network.now).size(), 1u);
}

TEST(Losses, OneLinkThatLosesPacketsIsNamedWithBothEnds) {
  Network network;
  network.seconds(60, [](uint64_t server, int machine, int second) {
    return server == 3 && machine == 2 && second % 2 == 0 ? 1 : 0;
  });
  const auto found = network.watch.alarms(network.now);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].server(), "server-3");
  EXPECT_EQ(found[0].peer(), "machine 10.0.0.2");
  EXPECT_EQ(found[0].confidence(), Verdict::LIKELY);
}

TEST(Losses, AMachineThatLosesPacketsWithAllServersAccusesNoneOfThem) {
  Network network;
  for (int i = 0; i < 60; ++i) {
    network.seconds(
        2, [](uint64_t, int machine, int second) { return machine == 2 && second % 2 == 0 ? 1 : 0; });
    EXPECT_TRUE(network.watch.alarms(network.now).empty());
  }
}

TEST(Losses, OneBurstOrAFewLostPacketsAreNoAlarm) {
  Network burst;
  burst.seconds(30, [](uint64_t server, int, int second) { return server == 3 && second == 20 ? 40 : 0; });
  EXPECT_TRUE(burst.watch.alarms(burst.now).empty()) << "a queue was full once";
  Network quiet;
  quiet.seconds(
      60, [](uint64_t server, int, int second) { return server == 3 && second % 8 == 0 ? 1 : 0; }, 5);
  EXPECT_TRUE(quiet.watch.alarms(quiet.now).empty()) << "too little was sent to know";
  Network usual;
  usual.seconds(120,
                [](uint64_t server, int, int second) { return server == 3 && second % 10 == 0 ? 1 : 0; });
  EXPECT_TRUE(usual.watch.alarms(usual.now).empty()) << "two in a thousand";
}

/// Six servers that answer requests of two kinds.
struct Serving {
  ErrorWatch watch;
  std::map<std::pair<uint64_t, std::string>, Answers> answers;
  std::set<uint64_t> running{1, 2, 3, 4, 5, 6};
  uint64_t asked_less = 0;  ///< this server gets `less` reads a second
  TimePoint now{TimePoint(1h)};

  template <class Faulty>
  void seconds(int count, Faulty faulty, uint64_t reads = 2, uint64_t less = 0) {
    for (int i = 0; i < count; ++i) {
      now += 1s;
      std::vector<Answers> all;
      for (const uint64_t server : running) {
        for (const std::string role : {"ReadChunk", "Ping"}) {
          Answers& told = answers[{server, role}];
          told.of = {server, server, "server-" + std::to_string(server), "chunkserver"};
          told.role = role;
          const uint64_t more = role == "Ping" ? 20 : server == asked_less ? less : reads;
          told.all += more;
          told.faulty += faulty(server, role) ? more : 0;
          told.at = now;
          all.push_back(told);
        }
      }
      watch.look(all, running, now);
    }
  }
};

TEST(Errors, AServerThatAnswersReadsWithErrorsIsNamedThoughItAnswersTheRest) {
  Serving serving;
  const auto well = [](uint64_t, const std::string&) { return false; };
  serving.seconds(40, well);
  EXPECT_TRUE(serving.watch.alarms(serving.now).empty());
  serving.seconds(
      25, [](uint64_t server, const std::string& role) { return server == 4 && role == "ReadChunk"; });
  const auto found = serving.watch.alarms(serving.now);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind(), Verdict::ERRORS);
  EXPECT_GT(found[0].factor(), 1) << "else nobody avoids it";
  EXPECT_EQ(found[0].server(), "server-4");
  EXPECT_EQ(found[0].region(), "ReadChunk");
  EXPECT_EQ(
      proto::advise(found[0]),
      "server-4 answers most ReadChunk requests with an error; no operation waits for it now. Look at its "
      "log, and restart it.");
  serving.seconds(30, well);
  EXPECT_TRUE(serving.watch.alarms(serving.now).empty());
}

TEST(Errors, AServerThatOthersAvoidStaysNamedUntilItHasAnsweredWell) {
  Serving serving;
  const auto reads_fail = [](uint64_t server, const std::string& role) {
    return server == 4 && role == "ReadChunk";
  };
  const auto well = [](uint64_t, const std::string&) { return false; };
  serving.seconds(40, well);
  serving.seconds(30, reads_fail);
  ASSERT_EQ(serving.watch.alarms(serving.now).size(), 1u);
  // Others read elsewhere meanwhile; that it answers pings is no answer to reads.
  serving.asked_less = 4;
  serving.seconds(40, well, 2, 0);
  const auto avoided = serving.watch.alarms(serving.now);
  ASSERT_EQ(avoided.size(), 1u);
  EXPECT_EQ(avoided[0].server(), "server-4");
  EXPECT_GT(avoided[0].factor(), 1) << "else others would ask it again, and find the same";
  serving.seconds(4, well, 2, 1);
  serving.seconds(40, well, 2, 0);
  ASSERT_EQ(serving.watch.alarms(serving.now).size(), 1u) << "four good answers may be chance";
  serving.seconds(1, reads_fail, 2, 1);
  serving.seconds(40, well, 2, 0);
  serving.seconds(4, well, 2, 1);
  ASSERT_EQ(serving.watch.alarms(serving.now).size(), 1u) << "the good answers are no longer in a row";
  serving.seconds(1, well, 2, 1);
  EXPECT_TRUE(serving.watch.alarms(serving.now).empty());
}

/// Server 4 answers reads well, then with errors, and is asked less from then on.
void err_and_be_avoided(Serving& serving) {
  serving.seconds(40, [](uint64_t, const std::string&) { return false; });
  serving.seconds(
      30, [](uint64_t server, const std::string& role) { return server == 4 && role == "ReadChunk"; });
  serving.asked_less = 4;
}

TEST(Errors, AServerThatNobodyAsksAnyMoreIsTriedAgainAfterAWhile) {
  Serving serving;
  const auto well = [](uint64_t, const std::string&) { return false; };
  err_and_be_avoided(serving);
  serving.seconds(40, well, 2, 0);
  ASSERT_EQ(serving.watch.alarms(serving.now).size(), 1u);
  serving.seconds(15, well, 2, 0);
  EXPECT_TRUE(serving.watch.alarms(serving.now).empty());
}

TEST(Errors, ThatAreToldBeforeTheAnswersTheyBelongToEndNoAlarm) {
  Serving serving;
  const auto well = [](uint64_t, const std::string&) { return false; };
  err_and_be_avoided(serving);
  serving.seconds(31, well, 2, 0);
  // One thread counts while another one reads.
  ++serving.answers[{4, "ReadChunk"}].faulty;
  serving.seconds(1, well, 2, 0);
  const auto avoided = serving.watch.alarms(serving.now);
  ASSERT_EQ(avoided.size(), 1u);
  EXPECT_EQ(avoided[0].server(), "server-4");
}

TEST(Errors, ThoseOfAllServersNameNone) {
  Serving serving;
  serving.seconds(60, [](uint64_t server, const std::string&) { return server <= 5; });
  EXPECT_TRUE(serving.watch.alarms(serving.now).empty());
}

TEST(Errors, FewErrorsAndProcessesThatEndAreNoAlarm) {
  Serving serving;
  serving.seconds(40, [](uint64_t, const std::string&) { return false; });
  serving.seconds(4, [](uint64_t server, const std::string&) { return server == 2; });
  EXPECT_TRUE(serving.watch.alarms(serving.now).empty()) << "four seconds of thirty";
  serving.seconds(26, [](uint64_t server, const std::string&) { return server == 2; });
  ASSERT_EQ(serving.watch.alarms(serving.now).size(), 1u);
  serving.running.erase(2);
  serving.seconds(1, [](uint64_t, const std::string&) { return false; });
  EXPECT_TRUE(serving.watch.alarms(serving.now).empty());
  Serving idle;
  idle.seconds(2,
               [](uint64_t server, const std::string& role) { return server == 2 && role == "ReadChunk"; });
  EXPECT_TRUE(idle.watch.alarms(idle.now).empty()) << "fewer than ten answers";
}

/// Two machines with three processes each.
struct Clocks {
  ClockWatch watch;
  std::vector<WallClock> clocks;
  TimePoint now{TimePoint(1h)};

  Clocks() {
    for (uint64_t i = 1; i <= 6; ++i)
      clocks.push_back({.who = {i, i, "server-" + std::to_string(i), "chunkserver"},
                        .machine = i <= 3 ? "a" : "b",
                        .host = i <= 3 ? "left" : "right"});
  }
  std::vector<Verdict> after(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      now += 1s;
      for (WallClock& clock : clocks)
        clock.at = now;
      watch.look(clocks, now);
    }
    return watch.alarms(now);
  }
};

TEST(WallClocks, AJumpIsToldForAMinuteWithItsSize) {
  Clocks clocks;
  clocks.clocks[4].jumps = 7;  // before the monitor has run
  EXPECT_TRUE(clocks.after(20).empty());
  clocks.clocks[1].jumps = 1;
  clocks.clocks[1].jumped = -20s;
  const auto found = clocks.after(5);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind(), Verdict::CLOCK);
  EXPECT_EQ(found[0].server(), "server-2");
  EXPECT_TRUE(found[0].masked()) << "no operation hangs on it";
  EXPECT_EQ(found[0].why(0), "its wall clock jumped back by 20.0 s, as the monotonic clock beside it shows");
  EXPECT_TRUE(clocks.after(70).empty());
}

TEST(WallClocks, OfAllProcessesOfAMachineAreOneAlarm) {
  Clocks clocks;
  EXPECT_TRUE(clocks.after(20).empty());
  for (size_t i = 3; i < 6; ++i)
    clocks.clocks[i].jumps = 1, clocks.clocks[i].jumped = 300s, clocks.clocks[i].ahead = 300s;
  const auto found = clocks.after(10);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].server(), "machine right");
  EXPECT_EQ(
      proto::advise(found[0]),
      "the wall clock of machine right jumped, or is wrong; operations continue without it. Check the time "
      "service (NTP) of its machine.");
}

TEST(WallClocks, AMinuteBesideTheOthersIsToldUntilItIsPutRight) {
  Clocks clocks;
  clocks.clocks[5].ahead = -90s;
  const auto found = clocks.after(15);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].server(), "server-6");
  EXPECT_EQ(found[0].why(0), "its wall clock is 90.0 s behind most others");
  clocks.clocks[5].ahead = -1s;
  EXPECT_TRUE(clocks.after(2).empty());
}

TEST(WallClocks, OfTwoHalvesThatDifferNoneIsSaidToBeWrong) {
  Clocks clocks;
  for (size_t i = 3; i < 6; ++i)
    clocks.clocks[i].ahead = 300s;
  EXPECT_TRUE(clocks.after(30).empty());
}

TEST(WallClocks, OneReportThatWasOnItsWayForLongIsNoWrongClock) {
  Clocks clocks;
  EXPECT_TRUE(clocks.after(20).empty());
  clocks.clocks[5].ahead = -90s;
  EXPECT_TRUE(clocks.after(1).empty());
  clocks.clocks[5].ahead = 0s;
  EXPECT_TRUE(clocks.after(20).empty());
}

TEST(WallJumps, AreCountedWithTheirSize) {
  struct Jumping : sight::HandClock {
    WallTime wall_now() const override { return sight::HandClock::wall_now() + ahead; }
    Duration ahead{};
  } clock;
  sight::WallJumps jumps;
  const auto ticks = [&](int count) {
    for (int i = 0; i < count; ++i) {
      clock.advance(200ms);
      clock.ahead += 1ms;  // it is being put right slowly
      jumps.look(clock);
    }
  };
  ticks(50);
  EXPECT_EQ(jumps.told().jumps(), 0u);
  clock.ahead -= 10s;
  ticks(5);
  clock.advance(60s);  // the process stood still, both clocks went on
  ticks(5);
  EXPECT_EQ(jumps.told().jumps(), 1u);
  EXPECT_NEAR(to_seconds(Duration(jumps.told().jumped_ns())), -10, 0.1);
}

/// What commands tell of one address, with or without checks of servers beside.
struct Commands {
  UnreachedWatch watch;
  std::map<uint64_t, Checks> reports;
  TimePoint now{TimePoint(1h)};
  uint64_t next = 1'000;

  void gives_up(const std::string& peer, const std::vector<std::string>& reached = {"10.0.0.1", "10.0.0.2"}) {
    const uint64_t process = next++;
    const std::string caller = "client " + std::to_string(process);
    watch.hear({.process = process, .caller = caller, .peer = peer, .given_up = true}, now);
    for (const std::string& other : reached)
      watch.hear({.process = process, .caller = caller, .peer = other}, now);
  }
  std::vector<Verdict> look(proto::SightCheck::Outcome outcome, int checks) {
    now += 1s;
    std::vector<Checks> all;
    for (uint64_t from = 1; from <= 4 && checks > 0; ++from) {
      Checks& report = reports[from];
      report.process = from;
      report.caller = "server-" + std::to_string(from);
      for (const char* peer : {"10.0.0.7", "10.0.0.8", "10.0.0.9"}) {
        proto::SightCheck check;
        check.set_number(report.latest.size() + 1);
        check.set_peer(peer);
        check.set_outcome(
            peer == std::string("10.0.0.7") && int(from) <= checks ? outcome : proto::SightCheck::ANSWERED);
        report.latest.push_back(check);
      }
      all.push_back(report);
    }
    watch.look(all, {}, now);
    return watch.alarms(now);
  }
};

TEST(Unreached, TwoCommandsThatGaveUpOnAServerThatNobodyChecksNameIt) {
  Commands commands;
  commands.gives_up("10.0.0.7");
  EXPECT_TRUE(commands.look(proto::SightCheck::ANSWERED, 0).empty()) << "one may have its own trouble";
  commands.gives_up("10.0.0.7");
  const auto found = commands.look(proto::SightCheck::ANSWERED, 0);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].server(), "10.0.0.7");
  EXPECT_EQ(found[0].region(), "requests of commands");
  EXPECT_EQ(found[0].confidence(), Verdict::LIKELY);
  for (int i = 0; i < 45; ++i)
    (void)commands.look(proto::SightCheck::ANSWERED, 0);
  EXPECT_TRUE(commands.watch.alarms(commands.now).empty());
}

TEST(Unreached, CommandsMakeUpForChecksThatFailTooSeldomAlone) {
  Commands commands;
  EXPECT_TRUE(commands.look(proto::SightCheck::UNCONNECTED, 2).empty()) << "two checks of four";
  commands.gives_up("10.0.0.7");
  commands.gives_up("10.0.0.7");
  EXPECT_EQ(commands.look(proto::SightCheck::UNCONNECTED, 2).size(), 1u);
}

TEST(Unreached, ServersThatAllOthersReachAreNotAccusedByCommands) {
  Commands commands;
  for (int i = 0; i < 5; ++i)
    commands.gives_up("10.0.0.7");
  EXPECT_TRUE(commands.look(proto::SightCheck::ANSWERED, 4).empty());
}

TEST(Unreached, ACommandThatReachesNobodyAccusesNobody) {
  Commands commands;
  for (int i = 0; i < 5; ++i)
    commands.gives_up("10.0.0.7", {});
  EXPECT_TRUE(commands.look(proto::SightCheck::ANSWERED, 0).empty());
}

}  // namespace
}  // namespace kintsugi::gray

// Gray failures from the reports of a cluster: servers that were away, and machines whose servers share a disk.
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "monitoring/daemon/gray_detector.h"

namespace kintsugi::monitoring {
namespace {

using proto::Verdict;

/// Twelve servers that report each second, and of which each checks one other every five seconds.
class Cluster {
 public:
  static constexpr uint64_t kServers = 12;
  struct Server {
    uint64_t process = 0, sequence = 0, stalls = 0;
    TimePoint started{};
    bool runs = true;
    bool dropped = false;     ///< new connections to it are
    bool unreported = false;  ///< its reports do not arrive
    double delayed = 0;       ///< waits for a processor for so much of each second,
    double ran = 0.1;         ///< and has one for so much
    uint64_t delayed_ns = 0, ran_ns = 0;
    std::string machine;
    std::vector<proto::SightCheck> checks;
  };

  Cluster() {
    for (uint64_t number = 1; number <= kServers; ++number)
      server(number) = {.process = 1000 + number, .started = now_, .machine = "one", .checks = {}};
  }
  Server& server(uint64_t number) { return servers_[number]; }
  static std::string address(uint64_t number) { return "10.0.0." + std::to_string(number) + ":7100"; }

  /// All that is found, after each of them.
  void seconds(int count, const std::function<void(const std::vector<Verdict>&)>& after = {}) {
    for (int i = 0; i < count; ++i) {
      now_ += 1s;
      ++turn_;
      for (auto& [number, one] : servers_) {
        if (!one.runs) continue;
        check(number, one);
        one.delayed_ns += static_cast<uint64_t>(one.delayed * 1e9);
        one.ran_ns += static_cast<uint64_t>(one.ran * 1e9);
        if (!one.unreported) EXPECT_TRUE(processes_.accept(report(number, one), now_).ok());
      }
      found_ = detector_.examine(processes_.snapshot(now_, 0, {}));
      if (after) after(found_);
    }
  }
  void start_anew(uint64_t number) {
    Server& one = server(number);
    one = {.process = one.process + 100, .started = now_, .machine = one.machine, .checks = {}};
  }
  /// A command that waited for `peer` in vain for so long ends.
  void command_gives_up(uint64_t peer, Duration waited) {
    proto::SightReport report;
    report.set_process(++commands_);
    report.set_kind("client");
    report.set_name("client " + std::to_string(commands_));
    report.set_sequence(1);
    proto::SightLive& wait = *report.add_live();
    wait.set_wait(proto::WAIT_CALL);
    wait.set_target(address(peer));
    wait.set_age_ns(static_cast<uint64_t>(waited.count()));
    wait.set_ended_ago_ns(100'000'000);
    wait.set_outcome(static_cast<uint32_t>(Code::kDeadlineExceeded));
    for (uint64_t other = 1; other <= 3; ++other) {
      proto::SightDevice& device = *report.add_devices();
      device.set_name(address(other));
      device.set_peer(true);
      device.set_answers(3);
    }
    model::ProcessView view;
    EXPECT_TRUE(view.accept(report, now_).ok());
    detector_.report_came(view, report, now_);
  }
  const std::vector<Verdict>& found() const { return found_; }

 private:
  /// Whether it answers is seen when it is asked, and told four seconds later if it does not.
  void check(uint64_t number, Server& one) {
    while (!in_vain_[number].empty() && now_ - in_vain_[number].front().first >= 4s) {
      note(one, in_vain_[number].front().second, proto::SightCheck::UNCONNECTED);
      in_vain_[number].pop_front();
    }
    if ((turn_ + number) % 5 != 0) return;
    const uint64_t peer = (number + turn_ / 5 % (kServers - 1)) % kServers + 1;
    if (!server(peer).runs || server(peer).dropped)
      in_vain_[number].emplace_back(now_, peer);
    else
      note(one, peer, proto::SightCheck::ANSWERED);
  }
  static void note(Server& one, uint64_t peer, proto::SightCheck::Outcome outcome) {
    proto::SightCheck check;
    check.set_number(one.checks.empty() ? 1 : one.checks.back().number() + 1);
    check.set_peer(address(peer));
    check.set_outcome(outcome);
    one.checks.push_back(check);
    if (one.checks.size() > 8) one.checks.erase(one.checks.begin());
  }
  proto::SightReport report(uint64_t number, Server& one) const {
    proto::SightReport report;
    report.set_process(one.process);
    report.set_kind("chunkserver");
    report.set_name("server-" + std::to_string(number));
    report.set_server_id(number);
    report.set_address(address(number));
    report.set_host("host-" + one.machine);
    report.set_sequence(++one.sequence);
    report.set_uptime_ns(static_cast<uint64_t>((now_ - one.started).count()));
    report.mutable_system()->set_machine(one.machine);
    report.mutable_system()->set_loop_cpu_ns(one.ran_ns);
    report.mutable_system()->set_loop_delay_ns(one.delayed_ns);
    report.mutable_checks()->Assign(one.checks.begin(), one.checks.end());
    proto::SightDevice& disk = *report.add_devices();
    disk.set_name("/data/" + std::to_string(number));
    disk.set_stalls(one.stalls);
    return report;
  }

  std::map<uint64_t, Server> servers_;
  std::map<uint64_t, std::deque<std::pair<TimePoint, uint64_t>>> in_vain_;
  model::Processes processes_;
  GrayDetector detector_;
  std::vector<Verdict> found_;
  TimePoint now_{1h};
  uint64_t turn_ = 0, commands_ = 100'000;
};

void expect_nothing(const std::vector<Verdict>& found) {
  for (const Verdict& verdict : found)
    ADD_FAILURE() << verdict.server() << ": " << Verdict::Kind_Name(verdict.kind()) << ", "
                  << (verdict.why().empty() ? "" : verdict.why(0));
}

TEST(UnreachedServers, OneThatWasStartedAnewIsNotAccusedOfTheTimeWhenItWasDown) {
  Cluster cluster;
  cluster.seconds(60, expect_nothing);
  cluster.server(7).runs = false;
  cluster.seconds(35, expect_nothing);
  cluster.start_anew(7);
  cluster.seconds(60, expect_nothing);
}

TEST(UnreachedServers, OneThatStoodStillIsNotAccusedWhenItGoesOn) {
  Cluster cluster;
  cluster.seconds(60, expect_nothing);
  cluster.server(7).runs = false;
  cluster.seconds(35, expect_nothing);
  cluster.server(7).runs = true;
  cluster.seconds(60, expect_nothing);
}

TEST(UnreachedServers, OneThatIsBackIsNotAccusedByCommandsThatWaitedForItBefore) {
  Cluster cluster;
  cluster.seconds(60, expect_nothing);
  cluster.server(7).runs = false;
  cluster.seconds(35, expect_nothing);
  cluster.start_anew(7);
  cluster.server(7).dropped = true;
  cluster.seconds(2, expect_nothing);
  for (int i = 0; i < 3; ++i)
    cluster.command_gives_up(7, 20s);
  cluster.seconds(2, expect_nothing);
  for (int i = 0; i < 3; ++i)
    cluster.command_gives_up(7, 1s);
  cluster.seconds(1);
  ASSERT_EQ(cluster.found().size(), 1u) << "these began when it was there";
  EXPECT_EQ(cluster.found()[0].server(), "server-7");
}

TEST(UnreachedServers, OneThatIsBackIsNotAccusedByWhoeverTellsLateOfTheTimeBefore) {
  Cluster cluster;
  cluster.seconds(60, expect_nothing);
  cluster.server(7).runs = false;
  const auto report = [&](bool they_do) {
    for (uint64_t caller = 1; caller <= Cluster::kServers; ++caller)
      cluster.server(caller).unreported = caller != 7 && !they_do;
  };
  report(false);
  cluster.seconds(35);
  cluster.start_anew(7);
  cluster.seconds(8, expect_nothing);
  report(true);
  cluster.seconds(60, expect_nothing);
}

TEST(UnreachedServers, OneThatNobodyReachesAfterItsStartIsNamed) {
  Cluster cluster;
  cluster.seconds(60, expect_nothing);
  cluster.server(7).runs = false;
  cluster.seconds(35, expect_nothing);
  cluster.start_anew(7);
  cluster.server(7).dropped = true;
  cluster.seconds(40);
  ASSERT_EQ(cluster.found().size(), 1u);
  EXPECT_EQ(cluster.found()[0].kind(), Verdict::UNREACHED);
  EXPECT_EQ(cluster.found()[0].server(), "server-7");
}

TEST(UnreachedServers, OneThatIsWellAfterAQuickRestartIsAccusedNoLonger) {
  Cluster cluster;
  cluster.seconds(60, expect_nothing);
  cluster.server(7).dropped = true;
  cluster.seconds(40);
  ASSERT_EQ(cluster.found().size(), 1u);
  cluster.start_anew(7);
  cluster.seconds(30, expect_nothing);
}

TEST(StallingDisks, WhoHardlyRunsMeasuresTimesThatSayNothingOfItsDisk) {
  struct Case {
    double delayed, ran;
    bool is_named;
  };
  // With a little of a processor it would hear of an answer: then it is the disk.
  for (const auto& [delayed, ran, is_named] : {Case{0.95, 0.001, false}, Case{0.8, 0.1, true}}) {
    Cluster cluster;
    cluster.seconds(20, expect_nothing);
    cluster.server(3).delayed = delayed;
    cluster.server(3).ran = ran;
    const auto stall = [&](int seconds) {
      for (int second = 0; second < seconds; ++second) {
        cluster.server(3).stalls += second % 6 == 5 ? 3 : 0;
        cluster.seconds(1);
      }
    };
    stall(60);
    EXPECT_EQ(cluster.found().size(), is_named ? 1u : 0u) << delayed << " of the time delayed";
    cluster.server(3).delayed = 0;
    cluster.server(3).ran = 0.1;
    if (!is_named) cluster.seconds(20, expect_nothing);
    stall(40);
    ASSERT_EQ(cluster.found().size(), 1u) << "it has its processor again";
    EXPECT_EQ(cluster.found()[0].kind(), Verdict::PAUSES);
    EXPECT_EQ(cluster.found()[0].device(), "/data/3");
  }
}

TEST(StallingDisks, ThatServersOfOneMachineShareAccuseNoneOfThem) {
  Cluster cluster;
  cluster.seconds(20, expect_nothing);
  for (int second = 0; second < 120; ++second) {
    // The disk stands still for all of them; four had requests there, of which one ended a little later.
    for (const uint64_t number : {2u, 5u, 9u})
      cluster.server(number).stalls += second % 10 == 0 ? 3 : 0;
    cluster.server(11).stalls += second % 10 == 1 ? 1 : 0;
    cluster.seconds(1, expect_nothing);
  }
}

TEST(StallingDisks, OneThatStallsAloneIsNamedBesideOthersOfItsMachineThatStallTogether) {
  Cluster cluster;
  cluster.seconds(20, expect_nothing);
  for (int second = 0; second < 60; ++second) {
    cluster.server(2).stalls += second % 8 == 0 ? 3 : 0;
    for (const uint64_t number : {2u, 5u, 9u})
      cluster.server(number).stalls += second % 30 == 28 ? 3 : 0;
    cluster.seconds(1);
  }
  ASSERT_EQ(cluster.found().size(), 1u);
  EXPECT_EQ(cluster.found()[0].kind(), Verdict::PAUSES);
  EXPECT_EQ(cluster.found()[0].server(), "server-2");
  EXPECT_EQ(cluster.found()[0].device(), "/data/2");
}

TEST(StallingDisks, OnesThatStallOnSeveralServersOfOneMachineAreThatOfTheMachine) {
  Cluster cluster;
  for (uint64_t number = 1; number <= Cluster::kServers; ++number)
    cluster.server(number).machine = number <= 4 ? "one" : number <= 8 ? "two" : "three";
  cluster.seconds(20, expect_nothing);
  for (int second = 0; second < 60; ++second) {
    for (const uint64_t number : {5u, 6u, 8u})
      cluster.server(number).stalls += second % 10 == 0 ? 3 : 0;
    cluster.seconds(1);
  }
  ASSERT_EQ(cluster.found().size(), 1u);
  EXPECT_EQ(cluster.found()[0].kind(), Verdict::PAUSES);
  EXPECT_EQ(cluster.found()[0].server(), "machine host-two");
  EXPECT_EQ(cluster.found()[0].server_id(), 0u) << "none of its servers is avoided for it";
  cluster.seconds(65);
  expect_nothing(cluster.found());
}

}  // namespace
}  // namespace kintsugi::monitoring

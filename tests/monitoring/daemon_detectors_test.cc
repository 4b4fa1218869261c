// What the monitor makes of reports, beside waits: disks that fail slowly, and workers that take longer than their peers.
#include <cmath>
#include <functional>
#include <set>

#include <gmock/gmock.h>

#include "monitoring/daemon/detectors.h"
#include "monitoring/daemon/gray_detector.h"
#include "monitoring/daemon/process_windows.h"
#include "monitoring/daemon/room_detector.h"
#include "monitoring/daemon/similarity_detectors.h"
#include "monitoring/daemon/window_detector.h"
#include "monitoring/daemon/window_times.h"

namespace kintsugi::monitoring {
namespace {

/// Servers that report once a second what they did.
class Reports {
 public:
  static constexpr uint64_t kServers = 6;
  bool all_are_slow = false;    ///< and not only the one
  uint64_t metaserver = 0;      ///< this server is one; 0: none
  bool one_machine = false;     ///< all run on it
  uint32_t slow_stays = 100;    ///< of a hundred in each second
  uint64_t nearly_as_slow = 0;  ///< this server is, too
  uint64_t a_little_slow = 0;   ///< and this one takes eight times as long
  uint64_t starved = 0;  ///< 4: this server could run for more than half of each second and has no processor
  uint64_t only_one_not_starved = 0;  ///< if there is one: all others are
  uint64_t rate = 100;                ///< transitions of a server in a second

  /// A second passes; `slow` (0: none) takes `factor` times as long for everything.
  model::Snapshot second(uint64_t slow, double factor) {
    now_ += 1s;
    ++seconds_;
    for (uint64_t server = 1; server <= kServers; ++server) {
      const double takes = server == slow || all_are_slow ? factor
                           : server == nearly_as_slow     ? 0.8 * factor
                           : server == a_little_slow      ? 8
                                                          : 1;
      // Some seconds are better than others.
      const double noise = 1 + 0.1 * std::sin(static_cast<double>(seconds_ * 7 + server * 3));
      const auto rate = static_cast<double>(this->rate);
      counts_[server] += this->rate;
      busy_[server] += static_cast<uint64_t>(rate * 2e6 * takes * noise);
      log_sums_[server] += static_cast<int64_t>(rate * 256 * std::log2(2e6 * takes * noise));
      octaves_[server][static_cast<size_t>(std::log2(2e6 * takes * noise))] +=
          slow_stays * static_cast<uint32_t>(this->rate) / 100;
      octaves_[server][static_cast<size_t>(std::log2(2e6 * noise))] +=
          (100 - slow_stays) * static_cast<uint32_t>(this->rate) / 100;
      EXPECT_TRUE(processes_.accept(report(server), now_).ok());
    }
    return processes_.snapshot(now_, 0, {});
  }

 private:
  proto::SightReport report(uint64_t server) {
    proto::SightReport report;
    report.set_process(1000 + server);
    report.set_kind(server == metaserver ? "metaserver" : "chunkserver");
    report.set_name("server-" + std::to_string(server));
    report.set_server_id(100 + server);
    report.set_address("10.0.1." + std::to_string(server) + ":1");
    report.set_sequence(seconds_);
    report.set_uptime_ns(seconds_ * 1'000'000'000);
    if (server == starved || (only_one_not_starved != 0 && server != only_one_not_starved))
      delayed_ns_[server] += 600'000'000;
    report.mutable_system()->set_machine(one_machine ? "machine" : "machine-" + std::to_string(server));
    report.mutable_system()->set_loop_cpu_ns(seconds_ * 100'000'000);
    report.mutable_system()->set_loop_delay_ns(delayed_ns_[server]);
    const uint64_t count = counts_[server];
    proto::SightDevice& disk = *report.add_devices();
    disk.set_name("disk-0");
    disk.set_submitted(count);
    disk.set_completed(count);
    disk.set_busy_ns(busy_[server]);
    disk.set_bytes_in(count * 65536);
    proto::SightPath& path = *report.add_new_paths();
    path.set_path(1);
    path.set_role_path(11);
    path.set_site("disk.read");
    path.set_file("chunkserver/store/chunk_reader.cc");
    path.set_line(88);
    if (seconds_ % 10 == 5) {  // roles are told with every tenth report
      proto::SightRole& role = *report.add_roles();
      role.set_role(1);
      role.set_name("chunkserver.read_chunk");
      role.set_begun(count);
    }
    for (uint32_t id : {1u, 2u}) {
      proto::SightState& state = *report.add_new_states();
      state.set_state(id);
      state.set_role_path(11);
      state.set_role(1);
      state.set_last_child(id == 1 ? "" : "checked");
    }
    proto::SightEdge& edge = *report.add_edges();
    edge.set_from(1);
    edge.set_to(2);
    edge.set_count(count);
    edge.set_sum(log_sums_[server]);
    const double mean = static_cast<double>(log_sums_[server]) / 256 / static_cast<double>(count);
    for (const uint32_t stays : octaves_[server])
      edge.add_buckets(stays);
    edge.set_sum_sq(static_cast<int64_t>((mean * mean + 0.01) * 65536 * static_cast<double>(count)));
    return report;
  }

  TimePoint now_{1h};
  uint64_t seconds_ = 0;
  std::map<uint64_t, uint64_t> busy_, counts_, delayed_ns_;
  std::map<uint64_t, int64_t> log_sums_;
  std::map<uint64_t, std::array<uint32_t, 32>> octaves_;
  model::Processes processes_;
};

std::vector<proto::Verdict> after(Detector& detector, Reports& reports, int seconds, uint64_t slow,
                                  double factor) {
  std::vector<proto::Verdict> verdicts;
  for (int i = 0; i < seconds; ++i)
    verdicts = detector.examine(reports.second(slow, factor));
  return verdicts;
}

TEST(FailSlowDetector, NamesADiskThatTakesThreeTimesAsLongWithinAMinute) {
  FailSlowDetector detector;
  Reports reports;
  EXPECT_TRUE(after(detector, reports, 300, 0, 1).empty()) << "all are well";
  const auto verdicts = after(detector, reports, 60, 4, 3);
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].kind(), proto::Verdict::DEVICE);
  EXPECT_EQ(verdicts[0].server(), "server-4");
  EXPECT_EQ(verdicts[0].device(), "disk-0");
  EXPECT_FALSE(verdicts[0].why().empty());
  EXPECT_TRUE(after(detector, reports, 120, 0, 1).empty()) << "it recovered";
}

TEST(FailSlowDetector, WhoHasNoProcessorMeasuresTimesThatSayNothingOfItsDisk) {
  FailSlowDetector detector;
  Reports reports;
  EXPECT_TRUE(after(detector, reports, 300, 0, 1).empty());
  reports.starved = 4;
  EXPECT_TRUE(after(detector, reports, 120, 4, 3).empty());
  reports.starved = 0;
  EXPECT_TRUE(after(detector, reports, 120, 0, 1).empty()) << "nor later of the time when it had none";
  EXPECT_EQ(after(detector, reports, 60, 4, 3).size(), 1u) << "with a processor it is the disk";
}

TEST(WorkerDetector, WhoHasNoProcessorIsNoSlowServer) {
  WorkerDetector detector;
  Reports reports;
  EXPECT_TRUE(after(detector, reports, 600, 0, 1).empty());
  reports.starved = 4;
  for (const proto::Verdict& verdict : after(detector, reports, 150, 4, 4))
    EXPECT_EQ(verdict.kind(), proto::Verdict::RESOURCE) << "what it lacks may be named";
}

TEST(WorkerDetector, ALackOfProcessorInAnyPartOfALongerWindowExplainsIt) {
  for (const bool begins_without : {true, false}) {
    WorkerDetector detector;
    Reports reports;
    reports.rate = 6;  // so that two windows are joined
    EXPECT_TRUE(after(detector, reports, 1201, 0, 1).empty());
    for (int half = 0; half < 12; ++half) {
      reports.starved = (half % 2 == 0) == begins_without ? 4 : 0;
      for (const proto::Verdict& verdict : after(detector, reports, 30, 4, reports.starved == 4 ? 16 : 1))
        EXPECT_NE(verdict.kind(), proto::Verdict::SLOW) << "in half " << half;
    }
  }
}

TEST(WorkerDetector, ALackOfProcessorOfMostOfAMachineExplainsWhatOneOfItDoesLate) {
  for (const bool one_machine : {true, false}) {
    WorkerDetector detector;
    Reports reports;
    reports.one_machine = one_machine;
    EXPECT_TRUE(after(detector, reports, 600, 0, 1).empty());
    reports.only_one_not_starved = 2;
    size_t slow = 0;
    for (const proto::Verdict& verdict : after(detector, reports, 150, 2, 4))
      slow += verdict.kind() == proto::Verdict::SLOW ? 1 : 0;
    EXPECT_EQ(slow, one_machine ? 0u : 1u);
  }
}

TEST(WorkerDetector, NamesTheServerTheRoleAndTheRegionThatBecameSlower) {
  WorkerDetector detector;
  Reports reports;
  EXPECT_TRUE(after(detector, reports, 600, 0, 1).empty()) << "all are well";
  const auto verdicts = after(detector, reports, 150, 2, 4);
  ASSERT_FALSE(verdicts.empty());
  EXPECT_EQ(verdicts[0].server(), "server-2");
  for (const proto::Verdict& verdict : verdicts)
    EXPECT_EQ(verdict.server(), "server-2") << "nobody else is accused";
}

TEST(Detectors, AllSayNothingOfAHealthyClusterAndOfNone) {
  Reports reports;
  const auto detectors = make_detectors(false);
  for (const auto& detector : detectors)
    EXPECT_TRUE(detector->examine({}).empty()) << detector->name();
  for (int i = 0; i < 120; ++i) {
    const model::Snapshot snapshot = reports.second(0, 1);
    for (const auto& detector : detectors)
      EXPECT_TRUE(detector->examine(snapshot).empty()) << detector->name();
  }
}

/// Six servers in six machines that report each second what they sent and answered; server 4 may be ill.
std::vector<proto::Verdict> after_a_minute(GrayDetector& detector, uint64_t lost, uint64_t faulty,
                                           const std::vector<proto::Verdict>& heard = {},
                                           const std::set<uint64_t>& short_of_processor = {}) {
  model::Processes processes;
  std::vector<proto::Verdict> found;
  for (uint64_t second = 1; second <= 60; ++second) {
    const TimePoint now = TimePoint(1h) + second * 1s;
    for (uint64_t server = 1; server <= 6; ++server) {
      proto::SightReport report;
      report.set_process(1000 + server);
      report.set_kind("chunkserver");
      report.set_name("server-" + std::to_string(server));
      report.set_server_id(server);
      report.set_address("10.0.0." + std::to_string(server) + ":7100");
      report.set_sequence(second);
      report.set_uptime_ns(uint64_t(Duration(1h).count()) + second * 1'000'000'000);
      report.mutable_system()->set_machine("boot-" + std::to_string(server));
      report.mutable_system()->set_loop_cpu_ns(second * 100'000'000);
      report.mutable_system()->set_loop_delay_ns(short_of_processor.contains(server) ? second * 300'000'000
                                                                                     : 0);
      for (uint64_t other = 1; other <= 6; ++other) {
        if (other == server) continue;
        proto::SightLink& link = *report.add_links();
        link.set_end("10.0.0." + std::to_string(other) + ":7100");
        link.set_segments(200 * second);
        link.set_lost(other == 4 ? lost * second : 0);
      }
      proto::SightRole& role = *report.add_roles();
      role.set_role(3);
      role.set_name("serve.ReadChunk");
      role.set_begun(second);
      role.set_ended(second);
      role.set_failed(second);  // chunks that are not there are no fault of theirs
      role.set_faulty(server == 4 ? faulty * second : 0);
      EXPECT_TRUE(processes.accept(std::move(report), now).ok());
    }
    detector.hear(heard, now);
    found = detector.examine(processes.snapshot(now, 0, {}));
  }
  return found;
}

TEST(GrayDetector, NamesTheServerWhosePacketsAreLostByWhatItsCallersSentAgain) {
  GrayDetector well, ill;
  EXPECT_TRUE(after_a_minute(well, 0, 0).empty());
  const auto found = after_a_minute(ill, 1, 0);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind(), proto::Verdict::LOSSES);
  EXPECT_EQ(found[0].server(), "server-4");
  EXPECT_EQ(found[0].peer(), "");
}

TEST(GrayDetector, APacketThatWasSentAgainSinceAnEndHadNoProcessorIsEvidenceOfThatOnly) {
  GrayDetector well, some_callers, far_more;
  EXPECT_EQ(after_a_minute(well, 1, 0).size(), 1u);
  EXPECT_TRUE(well.excused().empty());
  for (const std::set<uint64_t>& without : {std::set<uint64_t>{4}, {1, 2, 3, 5, 6}}) {
    GrayDetector detector;
    EXPECT_TRUE(after_a_minute(detector, 1, 0, {}, without).empty());
    ASSERT_EQ(detector.excused().size(), 5u);
    EXPECT_EQ(detector.excused()[0].server(), "server-4");
  }
  EXPECT_FALSE(after_a_minute(some_callers, 1, 0, {}, {1, 2, 3}).empty()) << "others miss packets, too";
  EXPECT_EQ(after_a_minute(far_more, 4, 0, {}, {4}).size(), 1u);
}

TEST(GrayDetector, NamesAServerThatAnswersErrorsUnlessItsDiskExplainsThem) {
  GrayDetector detector, with_disk;
  const auto found = after_a_minute(detector, 0, 1);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind(), proto::Verdict::ERRORS);
  EXPECT_EQ(found[0].server(), "server-4");
  EXPECT_EQ(found[0].region(), "ReadChunk");
  proto::Verdict disk;
  disk.set_kind(proto::Verdict::DEVICE);
  disk.set_process(1004);
  EXPECT_TRUE(after_a_minute(with_disk, 0, 1, {disk}).empty());
}

TEST(RoomDetector, SaysNothingOfAMetaserverThatDoesNotAnswerAnyMore) {
  RoomDetector detector;
  model::Snapshot snapshot;
  snapshot.taken = TimePoint(1h);
  snapshot.metaserver.unanswered = Duration{};
  snapshot.metaserver.metadata_room.set_full(true);
  EXPECT_TRUE(detector.examine(snapshot).empty()) << "room may come at this moment";
  snapshot.taken += 3s;
  ASSERT_EQ(detector.examine(snapshot).size(), 1u);
  snapshot.taken += 10s;
  snapshot.metaserver.unanswered = 10s;
  EXPECT_TRUE(detector.examine(snapshot).empty()) << "what it said may be over";
}

TEST(ComplaintDetector, NamesTheServerAtTheAddressThatOthersComplainOf) {
  model::Processes processes;
  const auto report = [&](uint64_t process, const std::string& name, uint64_t complaints) {
    proto::SightReport report;
    report.set_process(process);
    report.set_kind("chunkserver");
    report.set_name(name);
    report.set_address(name + ":1");
    report.set_server_id(process);
    report.set_sequence(1);
    proto::SightDevice& peer = *report.add_devices();
    peer.set_name("server-2:1");
    peer.set_peer(true);
    peer.set_complaints(complaints);
    peer.set_complained_of("ReadChunk");
    EXPECT_TRUE(processes.accept(report, TimePoint(1h)).ok());
  };
  report(1, "server-1", 3);
  report(2, "server-2", 0);
  ComplaintDetector detector;
  const auto found = detector.examine(processes.snapshot(TimePoint(1h), 0, {}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind(), proto::Verdict::MESSAGES);
  EXPECT_EQ(found[0].server(), "server-2");
  EXPECT_EQ(found[0].server_id(), 2u);
  EXPECT_EQ(found[0].region(), "serve.ReadChunk");
}

TEST(WindowTimes, SamplesOfOneOctaveAreSpreadOverItAndNotAPoint) {
  model::WorkerModel window;
  for (int i = 0; i < 100; ++i)
    window.add(1, 2, Duration(1500));
  const similarity::Model seconds = seconds_of(window);
  const similarity::Edge* edge = seconds.find({1, 2});
  ASSERT_NE(edge, nullptr);
  EXPECT_DOUBLE_EQ(edge->mean, 1.5 * 1024e-9);
  EXPECT_NEAR(edge->deviation(), 1024e-9 / std::sqrt(12), 1e-12)
      << "a point would be infinitely unlike its neighbour";
}

TEST(ProcessWindows, TheWindowOfAServerThatTakesLongerIsOddAndSaysWhere) {
  ProcessWindows windows;
  Reports reports;
  for (int i = 0; i < 60; ++i)
    for (const JudgedWindow& window : windows.add(reports.second(0, 1)))
      EXPECT_LE(window.ours.score, similarity::OddWindows::kOdd) << window.server << " in second " << i;
  const auto judged = windows.add(reports.second(3, 50));
  ASSERT_EQ(judged.size(), Reports::kServers);
  for (const JudgedWindow& window : judged)
    EXPECT_EQ(window.ours.score > similarity::OddWindows::kOdd, window.server == "server-3") << window.server;
  const std::string line = to_json(judged[2], windows.names());
  EXPECT_THAT(line, testing::HasSubstr(R"("server":"server-3")"));
  EXPECT_THAT(line, testing::HasSubstr(R"("because":"time")"));
  EXPECT_THAT(line, testing::HasSubstr(R"("region":"disk.read")"));
  EXPECT_GT(judged[2].semi, judged[1].semi) << "AutomaDeD's distance sees so much, too";
}

/// A detector that has seen a minute of what is usual.
struct Windows {
  explicit Windows(const std::function<void(Reports&)>& set = [](Reports&) {}) {
    set(reports);
    for (int i = 0; i < 60; ++i)
      EXPECT_TRUE(second(0, 1).empty()) << "in second " << i;
  }
  std::vector<proto::Verdict> second(uint64_t slow, double factor,
                                     const std::vector<proto::Verdict>& found = {}) {
    const model::Snapshot snapshot = reports.second(slow, factor);
    detector.hear(found, snapshot.taken);
    return detector.examine(snapshot);
  }
  Reports reports;
  WindowDetector detector;
};

TEST(WindowDetector, NamesAServerOfWhichThreeWindowsInARowAreOddForAsLongAsTheyAre) {
  Windows windows;
  for (int hiccups = 0; hiccups < 2; ++hiccups) {
    EXPECT_TRUE(windows.second(3, 50).empty());
    EXPECT_TRUE(windows.second(3, 50).empty()) << "two windows may be one hiccup";
    EXPECT_TRUE(windows.second(0, 1).empty());
  }
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(windows.second(3, 50).empty());
  const auto found = windows.second(3, 50);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].kind(), proto::Verdict::SLOW);
  EXPECT_EQ(found[0].server(), "server-3");
  EXPECT_EQ(found[0].server_id(), 103u);
  EXPECT_EQ(found[0].region(), "disk.read");
  EXPECT_EQ(found[0].file(), "chunkserver/store/chunk_reader.cc");
  EXPECT_GE(found[0].since_ns(), 3'000'000'000u) << "since the first of them began";
  EXPECT_EQ(windows.second(3, 50).size(), 1u);
  EXPECT_TRUE(windows.second(0, 1).empty());
}

TEST(WindowDetector, WindowsThatAreJustOddHaveToBeMoreThanThree) {
  Windows windows;
  windows.reports.slow_stays = 5;  // half of each second
  for (int hiccups = 0; hiccups < 2; ++hiccups) {
    for (int i = 0; i < 3; ++i)
      EXPECT_TRUE(windows.second(3, 50).empty());
    EXPECT_TRUE(windows.second(0, 1).empty()) << "what was before it counts no more";
  }
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(windows.second(3, 50).empty());
  EXPECT_EQ(windows.second(3, 50).size(), 1u);
}

TEST(WindowDetector, SaysNothingOfWhoWasNamedOrWaitedForSomebodyWhoWas) {
  for (const bool is_culprit : {true, false}) {
    Windows windows;
    proto::Verdict stuck;
    stuck.set_kind(proto::Verdict::STUCK);
    stuck.set_process(is_culprit ? 1003 : 1001);
    stuck.add_processes_waiting(is_culprit ? 1001 : 1003);
    EXPECT_TRUE(windows.second(3, 50, {stuck}).empty());
    for (int i = 0; i < 55; ++i)
      EXPECT_TRUE(windows.second(3, 50).empty()) << "of the same time";
    for (int i = 0; i < 10; ++i)
      (void)windows.second(3, 50);
    EXPECT_EQ(windows.second(3, 50).size(), 1u) << "it still is, long after what was said";
  }
}

TEST(WindowDetector, WhoBearsTheSameNameAsOneThatWasNamedIsAnotherOne) {
  // Two clients of one host have one name.
  Windows windows;
  proto::Verdict stuck;
  stuck.set_kind(proto::Verdict::STUCK);
  stuck.set_server("server-3");
  stuck.set_process(99);
  stuck.add_servers_waiting("server-3");
  stuck.add_processes_waiting(98);
  stuck.set_peer("server-3");
  stuck.set_peer_process(97);
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(windows.second(3, 50, {stuck}).empty());
  EXPECT_EQ(windows.second(3, 50, {stuck}).size(), 1u);
}

/// True when server 3 is named within so many seconds of being slow.
bool is_named_within(Windows& windows, int seconds) {
  for (int i = 0; i < seconds; ++i)
    if (!windows.second(3, 50).empty()) return true;
  return false;
}

TEST(WindowDetector, SaysNothingWhereMostServersOfAKindTakeLonger) {
  Windows windows;
  windows.reports.all_are_slow = true;
  EXPECT_FALSE(is_named_within(windows, 6));
}

TEST(WindowDetector, SaysNothingWhereAFifthOfTheOthersTakeLongerAtTheSameTime) {
  Windows windows;
  windows.reports.nearly_as_slow = 2;
  EXPECT_FALSE(is_named_within(windows, 6)) << "it may be a disk that both of them share";
  windows.reports.nearly_as_slow = 0;
  EXPECT_TRUE(is_named_within(windows, 3)) << "the others' last two windows are looked at";
}

TEST(WindowDetector, OthersOnTheSameMachineCountThoughTheyAreOfAnotherKind) {
  for (const bool one_machine : {true, false}) {
    Windows windows([&](Reports& reports) {
      reports.metaserver = 3;
      reports.one_machine = one_machine;
    });
    windows.reports.nearly_as_slow = 2;
    EXPECT_EQ(is_named_within(windows, 4), !one_machine);
  }
}

TEST(WindowDetector, AServerThatTakesMuchLongerThanOthersOnItsMachineIsNamedAllTheSame) {
  Windows windows([](Reports& reports) { reports.one_machine = true; });
  windows.reports.a_little_slow = 2;
  EXPECT_TRUE(is_named_within(windows, 3));
}

}  // namespace
}  // namespace kintsugi::monitoring

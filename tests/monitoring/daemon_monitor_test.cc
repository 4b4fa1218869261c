// A monitor among processes that report, lie, vanish and come back, and its own death in the middle of a hang.
#include <gmock/gmock.h>

#include "tests/monitoring/daemon_rig.h"

namespace kintsugi::monitoring {
namespace {

TEST(Monitor, SaysWhereItIsAndThatNothingIsStuck) {
  MonitorRig rig;
  rig.report_for(3);
  EXPECT_EQ(rig.meta->registered.address(), "10.0.0.2:8000");
  EXPECT_EQ(rig.meta->registered.http_address(), "10.0.0.2:8001");
  EXPECT_GE(rig.meta->registrations, 3);
  const proto::DiagnoseResponse answer = rig.diagnose();
  EXPECT_EQ(answer.verdicts_size(), 0);
  EXPECT_EQ(answer.servers(), 3u);
  EXPECT_EQ(answer.servers_reporting(), 3u);
  EXPECT_EQ(answer.processes_size(), 3);
  EXPECT_EQ(answer.monitor_http(), "10.0.0.2:8001");
  EXPECT_FALSE(answer.reduced());
}

TEST(Monitor, NamesTheProcessWhoseLoopIsStuckAndClearsTheAlarmWhenItGoesOn) {
  MonitorRig rig;
  rig.report_for(12);
  rig.report_for(4, /*stuck=*/2);
  proto::DiagnoseResponse answer = rig.diagnose();
  ASSERT_EQ(answer.verdicts_size(), 1);
  EXPECT_EQ(answer.verdicts(0).server(), "server-2");
  EXPECT_EQ(answer.verdicts(0).kind(), proto::Verdict::RUNNING);
  const uint64_t id = answer.verdicts(0).id();
  EXPECT_NE(id, 0u);
  rig.report_for(4);
  answer = rig.diagnose(/*history=*/true);
  EXPECT_EQ(answer.verdicts_size(), 0);
  ASSERT_EQ(answer.history_size(), 1);
  EXPECT_EQ(answer.history(0).id(), id);
  EXPECT_NE(answer.history(0).cleared_wall_ns(), 0);
  EXPECT_EQ(rig.diagnose(/*history=*/false).history_size(), 0);
}

TEST(Monitor, KilledInTheMiddleOfAHangItNamesTheCulpritAgainWithinTenSeconds) {
  for (const bool power_loss : {false, true}) {
    MonitorRig rig;
    rig.report_for(12);
    rig.report_for(4, /*stuck=*/2);
    const int64_t raised = rig.diagnose().verdicts(0).raised_wall_ns();
    rig.crash(power_loss);
    rig.simulation.run_for(5s);
    rig.start();
    for (int i = 0; i < 10; ++i) {
      rig.report_for(1, /*stuck=*/2, 30s);
      ASSERT_EQ(rig.diagnose().verdicts_size(), 1) << "after " << i << " s";
      EXPECT_EQ(rig.diagnose().verdicts(0).raised_wall_ns(), raised) << "it is the same alarm";
    }
    rig.report_for(4, /*stuck=*/2, 40s);
    EXPECT_EQ(rig.diagnose().verdicts_size(), 1) << "it is found, and not only remembered";
    rig.report_for(14);
    EXPECT_EQ(rig.diagnose(true).verdicts_size(), 0);
    EXPECT_EQ(rig.diagnose(true).history_size(), 1);
  }
}

TEST(Monitor, RestartsAskProcessesForTheirDictionary) {
  MonitorRig rig;
  proto::SightReport report = rig.report(1);
  proto::SightPath& path = *report.add_new_paths();
  path.set_path(5);
  path.set_site("chunkserver.read_chunk");
  report.add_live()->set_path(5);
  EXPECT_FALSE(rig.send(report)->dictionary());
  rig.crash(false);
  rig.start();
  proto::SightReport later = rig.report(1);
  later.add_live()->set_path(5);
  EXPECT_TRUE(rig.send(later)->dictionary());
}

TEST(Monitor, GarbageReplaysAndFloodsAreRefusedAndHarmNobody) {
  MonitorRig rig;
  rig.report_for(2);
  proto::SightReport nobody = rig.report(1);
  nobody.set_process(0);
  EXPECT_EQ(rig.send(nobody).error().code(), Code::kInvalidArgument);
  const proto::SightReport once = rig.report(1);
  EXPECT_TRUE(rig.send(once));
  EXPECT_EQ(rig.send(once).error().code(), Code::kAlreadyExists);
  rig.simulation.run_for(5s);
  proto::SightReport large = rig.report(2);
  for (int i = 0; i < 4000; ++i)
    large.add_live()->set_target(std::string(300, 'x'));
  EXPECT_FALSE(rig.send(large)) << "more than 1 MiB";
  rig.simulation.run_for(5s);
  proto::SightReport wordy = rig.report(2);
  wordy.set_name(std::string(10'000, 'x'));
  EXPECT_EQ(rig.send(wordy).error().code(), Code::kInvalidArgument);
  int refused = 0;
  for (int i = 0; i < 200; ++i) {
    const auto sent = rig.send(rig.report(3));
    refused += !sent && sent.error().code() == Code::kLimitExceeded;
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(rig.monitor->intake().counters().too_many, 100u);
  EXPECT_TRUE(rig.send(rig.report(1))) << "others report as before";
  rig.simulation.run_for(60s);
  EXPECT_TRUE(rig.send(rig.report(3))) << "and so may the one that calmed down";
}

TEST(Monitor, AProcessThatWasStartedAgainTakesThePlaceOfTheFormer) {
  MonitorRig rig;
  rig.report_for(2);
  proto::SightReport anew = rig.report(2);
  anew.set_process(77);
  anew.set_sequence(1);
  EXPECT_TRUE(rig.send(anew));
  rig.simulation.run_for(1s);
  const proto::DiagnoseResponse answer = rig.diagnose();
  EXPECT_EQ(answer.processes_size(), 3);
  EXPECT_EQ(answer.servers_reporting(), 3u);
}

TEST(Monitor, GoesOnWithoutAMetaserverAndFindsItAgain) {
  MonitorRig rig;
  rig.report_for(12);
  rig.kill_metaserver();
  rig.report_for(3, /*stuck=*/3);
  ASSERT_EQ(rig.diagnose().verdicts_size(), 1);
  EXPECT_EQ(rig.diagnose().servers(), 3u) << "as it said last";
  rig.restart_metaserver();
  rig.report_for(5);
  EXPECT_GE(rig.meta->registrations, 2);
}

TEST(Monitor, OneThatWasReplacedSaysSoAndLeavesCleanly) {
  MonitorRig rig;
  rig.report_for(2);
  rig.meta->refuses = true;
  rig.report_for(3);
  EXPECT_TRUE(rig.monitor->watch().replaced());
  rig.meta->refuses = false;
  rig.simulation.run(rig.monitor->stop());
  EXPECT_TRUE(rig.meta->registered.leaving());
}

TEST(Monitor, KeepsSnapshotsThatAreAnalysedAtLeisureWithinTheirRoom) {
  MonitorRig rig({.snapshot_bytes = 16 << 20, .snapshot_interval = 5s});
  rig.report_for(12);
  rig.report_for(6, /*stuck=*/2);
  const auto names = rig.simulation.run(rig.monitor_node.runtime().disk.list("/monitor/snapshots"));
  ASSERT_TRUE(names);
  rig.simulation.run(rig.monitor->stop());
  rig.monitor.reset();
  std::vector<std::string> records;
  RecordLog log(rig.monitor_node.runtime(), {.directory = "/monitor/snapshots"});
  KINTSUGI_ASSERT_OK(rig.simulation.run(log.open([&](std::string_view r) { records.emplace_back(r); })));
  ASSERT_GE(records.size(), 6u) << "one each second while something is wrong";
  const auto detectors = make_detectors(false);
  size_t verdicts = 0;
  for (const std::string& record : records) {
    const auto snapshot = model::parse_snapshot(record);
    ASSERT_TRUE(snapshot) << snapshot.error();
    EXPECT_EQ(snapshot->processes.size(), 3u);
    EXPECT_EQ(snapshot->servers.size(), 3u);
    verdicts += detectors[0]->examine(*snapshot).size();
  }
  EXPECT_GE(verdicts, 3u) << "offline says what online said";
}

TEST(Monitor, AFullDiskCostsHistoryAndNothingElse) {
  MonitorRig rig;
  rig.monitor_node.disk().set_capacity("/", 0);
  rig.report_for(4, /*stuck=*/2);
  EXPECT_EQ(rig.diagnose().verdicts_size(), 1);
}

TEST(Monitor, GoesOnWhenItsOwnDiskHangs) {
  MonitorRig rig;
  rig.report_for(3);
  rig.monitor_node.disk().set_slow(2e6);  // minutes for each operation
  rig.report_for(30, /*stuck=*/2);
  ASSERT_EQ(rig.diagnose().verdicts_size(), 1);
  EXPECT_EQ(rig.diagnose().verdicts(0).server(), "server-2");
  EXPECT_GE(rig.diagnose().verdicts(0).since_ns(), 35'000'000'000u) << "it is still being looked at";
  EXPECT_GT(rig.monitor->records_given_up(), 10u) << "what waits is bounded";
}

}  // namespace
}  // namespace kintsugi::monitoring

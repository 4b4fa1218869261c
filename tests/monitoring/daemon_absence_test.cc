// Who is known and is not heard: an idle cluster's metaserver that dies, and servers that died before this monitor was started.
#include <gmock/gmock.h>

#include "common/proto/verdicts.h"
#include "monitoring/daemon/absence_detector.h"
#include "tests/monitoring/daemon_rig.h"

namespace kintsugi::monitoring {
namespace {

using proto::Verdict;

/// The only verdict; an empty one when there are none, or several.
Verdict only_verdict(MonitorRig& rig) {
  const proto::DiagnoseResponse answer = rig.diagnose();
  EXPECT_EQ(answer.verdicts_size(), 1) << answer.ShortDebugString();
  return answer.verdicts_size() == 1 ? answer.verdicts(0) : Verdict();
}

void set_dead(MonitorRig& rig, int server) {
  rig.meta->servers.mutable_servers(server - 1)->set_liveness(proto::ServerState::DEAD);
  rig.silent = static_cast<uint64_t>(server);
}

TEST(Absence, TheMetaserverOfAnIdleClusterIsNamedWithinTenSecondsAfterItsDeath) {
  MonitorRig rig;
  rig.report_for(12);
  EXPECT_EQ(rig.diagnose().verdicts_size(), 0);
  rig.kill_metaserver();
  rig.report_for(9);
  const Verdict dead = only_verdict(rig);
  EXPECT_EQ(dead.kind(), Verdict::SILENT);
  EXPECT_EQ(dead.server(), "metaserver");
  EXPECT_EQ(dead.confidence(), Verdict::CERTAIN);
  EXPECT_FALSE(dead.masked());
  rig.report_for(60);
  EXPECT_EQ(only_verdict(rig).id(), dead.id()) << "it stands for as long as the metaserver is away";
  rig.restart_metaserver();
  rig.report_for(8);
  EXPECT_EQ(rig.diagnose().verdicts_size(), 0);
}

TEST(Absence, TheMetaserverIsNamedAlsoByAMonitorThatWasStartedAfterItsDeath) {
  MonitorRig rig;
  rig.report_for(12);
  rig.kill_metaserver();
  rig.report_for(9);
  const uint64_t id = only_verdict(rig).id();
  rig.crash(false);
  rig.start();
  for (int i = 0; i < 30; ++i) {
    rig.report_for(1);
    EXPECT_EQ(only_verdict(rig).id(), id) << "after " << i << " s";
  }
  // Nobody reports to this monitor: where it is they learn from the metaserver.
  rig.crash(false);
  rig.simulation.run_for(1s);
  rig.start();
  rig.simulation.run_for(30s);
  EXPECT_EQ(only_verdict(rig).server(), "metaserver");
  EXPECT_EQ(only_verdict(rig).confidence(), Verdict::LIKELY) << "only the monitor's own calls say so";
}

TEST(Absence, AMetaserverThatReportsIsNotSilentThoughItDoesNotAnswer) {
  MonitorRig rig;
  const auto report_too = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      proto::SightReport report = rig.report(9);
      report.set_kind("metaserver");
      report.set_name("metaserver");
      report.clear_server_id();
      report.set_address("10.0.0.1:7000");
      EXPECT_TRUE(rig.send(report));
      rig.report_for(1);
    }
  };
  report_too(12);
  rig.kill_metaserver();
  report_too(12);
  EXPECT_EQ(rig.diagnose().verdicts_size(), 0) << "whatever holds it is another detector's matter";
  rig.report_for(8);
  EXPECT_EQ(only_verdict(rig).kind(), Verdict::SILENT);
}

TEST(Absence, ThatNoRepairManagerIsRegisteredIsToldUntilOneIs) {
  MonitorRig rig;
  rig.report_for(12);
  rig.meta->repairs_status = {Code::kNotFound, "no repair manager is registered: nothing is repaired"};
  rig.report_for(8);
  const Verdict missing = only_verdict(rig);
  EXPECT_EQ(missing.kind(), Verdict::SILENT);
  EXPECT_EQ(missing.process_kind(), "repair-manager");
  EXPECT_EQ(missing.confidence(), Verdict::CERTAIN);
  EXPECT_TRUE(proto::is_without_repairs(missing));
  EXPECT_THAT(proto::describe(missing),
              testing::HasSubstr("repair manager: none is registered: what is lost is not repaired"));
  rig.report_for(30);
  EXPECT_EQ(only_verdict(rig).id(), missing.id());
  rig.meta->repairs_status = {};
  rig.report_for(15);
  EXPECT_EQ(rig.diagnose().verdicts_size(), 0);
}

TEST(Room, ThatThereIsNoneIsAnAlarmUntilThereIsSome) {
  MonitorRig rig;
  rig.report_for(12);
  proto::Room& room = *rig.meta->space.mutable_servers_room();
  room.set_total_bytes(uint64_t{3} << 30);
  room.set_servers(3);
  room.set_full_servers(3);
  room.set_full(true);
  rig.report_for(8);
  const Verdict full = only_verdict(rig);
  EXPECT_EQ(full.kind(), Verdict::FULL);
  EXPECT_EQ(full.confidence(), Verdict::CERTAIN);
  EXPECT_FALSE(full.masked());
  EXPECT_EQ(full.room().full_servers(), 3u);
  EXPECT_GT(full.since_ns(), 0u);
  rig.report_for(30);
  EXPECT_EQ(only_verdict(rig).id(), full.id()) << "it is one alarm";
  room.set_full(false);
  rig.meta->space.mutable_metadata_room()->set_full(true);
  rig.report_for(8);
  EXPECT_EQ(only_verdict(rig).server(), "metaserver");
  rig.meta->space.Clear();
  rig.report_for(8);
  EXPECT_EQ(rig.diagnose().verdicts_size(), 0);
}

TEST(Absence, ARestartedMonitorKnowsTheServersThatWereSilentBefore) {
  MonitorRig rig;
  rig.report_for(12);
  set_dead(rig, 2);
  rig.report_for(8);
  const Verdict before = only_verdict(rig);
  EXPECT_EQ(before.server(), "server-2");
  EXPECT_EQ(before.confidence(), Verdict::CERTAIN);
  rig.crash(false);
  rig.start();
  for (int i = 0; i < 60; ++i) {
    rig.report_for(1);
    const Verdict now = only_verdict(rig);
    EXPECT_EQ(now.id(), before.id()) << "it is the same alarm, after " << i << " s";
    EXPECT_EQ(now.server_id(), 102u);
  }
  rig.silent = 0;
  rig.meta->servers.mutable_servers(1)->set_liveness(proto::ServerState::ALIVE);
  rig.report_for(8);
  EXPECT_EQ(rig.diagnose().verdicts_size(), 0);
}

TEST(Absence, AServerThatCameBackWhileTheMonitorWasAwayIsSilentNoMore) {
  MonitorRig rig;
  rig.report_for(12);
  set_dead(rig, 2);
  rig.report_for(8);
  EXPECT_EQ(only_verdict(rig).server(), "server-2");
  rig.crash(false);
  rig.silent = 0;
  rig.meta->servers.mutable_servers(1)->set_liveness(proto::ServerState::ALIVE);
  rig.start();
  rig.report_for(4);
  EXPECT_EQ(rig.diagnose().verdicts_size(), 0) << "it reports, and nobody has to wait for that to settle";
}

TEST(Absence, AMonitorThatNeverHeardADeadServerNamesIt) {
  MonitorRig rig;
  set_dead(rig, 3);
  rig.report_for(10);
  EXPECT_EQ(only_verdict(rig).server(), "server-3");
  EXPECT_THAT(only_verdict(rig).why(0), ::testing::HasSubstr("the metaserver holds it for dead"));
}

TEST(Absence, AServerThatReportsIsThereWhateverTheMetaserverSays) {
  MonitorRig rig;
  rig.meta->servers.mutable_servers(0)->set_liveness(proto::ServerState::SUSPECT);
  rig.report_for(15);
  EXPECT_EQ(rig.diagnose().verdicts_size(), 0);
}

TEST(Absence, AServerThatEndedInGoodOrderIsNamedOnceItIsDead) {
  MonitorRig rig;
  rig.report_for(12);
  proto::SightReport last = rig.report(2);
  last.set_last(true);
  EXPECT_TRUE(rig.send(last));
  rig.silent = 2;
  rig.meta->servers.mutable_servers(1)->set_liveness(proto::ServerState::SUSPECT);
  rig.report_for(10);
  EXPECT_EQ(rig.diagnose().verdicts_size(), 0) << "it may be about to be started again";
  set_dead(rig, 2);
  rig.report_for(4);
  EXPECT_EQ(only_verdict(rig).server(), "server-2");
}

TEST(Absence, AServerInMaintenanceIsMissedWhenItsTimeIsOver) {
  MonitorRig rig;
  rig.report_for(12);
  rig.meta->servers.mutable_servers(1)->set_maintenance_seconds(600);
  set_dead(rig, 2);
  rig.report_for(30);
  const proto::DiagnoseResponse answer = rig.diagnose();
  EXPECT_EQ(answer.verdicts_size(), 0) << answer.ShortDebugString();
  ASSERT_EQ(answer.in_maintenance_size(), 1);
  EXPECT_EQ(answer.in_maintenance(0).seconds_left(), 600);
  rig.meta->servers.mutable_servers(1)->set_maintenance_seconds(0);
  rig.report_for(30);
  EXPECT_EQ(only_verdict(rig).kind(), Verdict::SILENT);
}

}  // namespace
}  // namespace kintsugi::monitoring

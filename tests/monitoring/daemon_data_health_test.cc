// The sentence with which the console begins: whether all data is whole, and what comes next.
#include <gmock/gmock.h>

#include "monitoring/daemon/data_health.h"
#include "tests/monitoring/daemon_rig.h"

namespace kintsugi::monitoring {
namespace {

using Level = DataHealth::Level;

class DataHealthTest : public ::testing::Test {
 protected:
  DataHealthTest() { rig.meta->space.set_stripes(1204); }

  static constexpr int64_t kTold =
      3'000'000'000;  ///< ns after which the monitor has asked the metaserver again

  proto::StripeHealth& health() { return *rig.meta->space.mutable_health(); }
  /// 12 stripes lack a chunk; of these so many have no spare left.
  void lose_chunks(uint64_t without_spare = 0) {
    health().set_degraded(12);
    health().set_missing_chunks(12);
    health().set_without_spare(without_spare);
  }
  void repair(size_t repairs, double estimated_seconds) {
    for (size_t i = 0; i < repairs; ++i) {
      proto::RepairRecord& record = *rig.meta->repairs.add_running();
      record.set_estimated_seconds(estimated_seconds);
      record.set_started_ns(wall_ns() + kTold);
    }
  }
  int64_t wall_ns() const { return rig.monitor->snapshot().wall_ns; }
  DataHealth told() {
    rig.simulation.run_for(Duration(kTold));
    return data_health(rig.monitor->watch(), wall_ns());
  }

  MonitorRig rig;
};

TEST_F(DataHealthTest, AllIsWhole) {
  const DataHealth health = told();
  EXPECT_EQ(health.level, Level::kGood);
  EXPECT_EQ(health.sentence, "All 1,204 stripes are whole.");
  EXPECT_EQ(health.action, "");
  rig.meta->space.set_stripes(0);
  EXPECT_EQ(told().sentence, "No data is stored yet.");
  rig.meta->space.set_stripes(1'234'567);
  EXPECT_EQ(told().sentence, "All 1,234,567 stripes are whole.");
}

TEST_F(DataHealthTest, ADeadServerWhoseChunksWereRebuiltHarmsNoData) {
  rig.meta->servers.mutable_servers(1)->set_liveness(proto::ServerState::DEAD);
  EXPECT_EQ(told().sentence, "All 1,204 stripes are whole.");
}

TEST_F(DataHealthTest, WhileRepairsRunItSaysHowLongTheyWillTake) {
  lose_chunks();
  repair(4, 10);
  rig.meta->repairs.set_queued(8);
  const DataHealth health = told();
  EXPECT_EQ(health.level, Level::kWarning);
  EXPECT_EQ(health.sentence,
            "12 of 1,204 stripes lack a chunk and can be read; they are being repaired, about 30 s left.");
  EXPECT_EQ(health.action, "") << "it is being done";
}

TEST_F(DataHealthTest, RepairsThatTakeLongerThanEstimatedArePromisedNoEnd) {
  lose_chunks();
  repair(2, 10);
  rig.simulation.run_for(6s);
  EXPECT_THAT(told().sentence, ::testing::HasSubstr("about 4 s left"));
  rig.simulation.run_for(10s);
  EXPECT_THAT(told().sentence,
              ::testing::EndsWith("; they are being repaired, which takes longer than estimated."));
}

TEST_F(DataHealthTest, ThePaceOfTheLastMinuteCountsMoreThanEstimates) {
  // Each repair was to take 10 s alone; together, below a limit of their bandwidth, they do 4 chunks in 10 s.
  lose_chunks();
  repair(4, 10);
  rig.meta->repairs.set_queued(76);
  for (int i = 1; i <= 10; ++i) {
    told();
    rig.meta->repairs.set_done(i);
    rig.meta->repairs.set_queued(76 - i);
  }
  EXPECT_THAT(told().sentence, ::testing::HasSubstr("they are being repaired, about 4 min left"));
  // The repair manager starts again, counts from 0, and the links are quicker by then.
  rig.meta->repairs.set_done(0);
  told();
  for (int i = 1; i <= 5; ++i) {
    rig.meta->repairs.set_done(4 * i);
    rig.meta->repairs.set_queued(66 - 4 * i);
    told();
  }
  EXPECT_THAT(told().sentence, ::testing::HasSubstr("about 50 s left"));
}

TEST_F(DataHealthTest, MovesAndDegradedReadsAreNoRepairs) {
  lose_chunks();
  repair(1, 10);
  rig.meta->repairs.mutable_running(0)->set_kind(proto::RepairRecord::MOVE);
  rig.meta->repairs.set_queued(8);
  EXPECT_THAT(told().sentence, ::testing::HasSubstr("their repair waits, and none runs"));
}

TEST_F(DataHealthTest, StripesWithoutASpareAreBad) {
  lose_chunks(/*without_spare=*/3);
  repair(1, 40);
  const DataHealth health = told();
  EXPECT_EQ(health.level, Level::kBad);
  EXPECT_EQ(health.sentence,
            "3 of 1,204 stripes cannot lose another chunk; they are being repaired, about 40 s left.");
}

TEST_F(DataHealthTest, BeforeTheDelayOfRepairsItSaysWhenTheyBegin) {
  lose_chunks();
  rig.meta->repairs.set_delayed(12);
  rig.meta->repairs.set_repair_delay_seconds(900);
  EXPECT_EQ(told().sentence,
            "12 of 1,204 stripes lack a chunk and can be read; their repair begins when the servers have "
            "been dead for 15 min.");
}

TEST_F(DataHealthTest, WhatNobodyRepairsIsBadAndSaysWhomToStart) {
  lose_chunks();
  rig.meta->repairs_status = Status(Code::kNotFound, "no repair manager is registered");
  const DataHealth health = told();
  EXPECT_EQ(health.level, Level::kBad);
  EXPECT_EQ(health.sentence,
            "12 of 1,204 stripes lack a chunk and can be read; nothing repairs them, since no repair manager "
            "is registered.");
  EXPECT_EQ(health.action, "Start kintsugi-repair-manager.");
}

TEST_F(DataHealthTest, WithoutARepairManagerWholeDataIsNotCalledSafe) {
  rig.meta->repairs_status = Status(Code::kNotFound, "no repair manager is registered");
  EXPECT_EQ(told().level, Level::kWarning);
  EXPECT_THAT(told().sentence,
              ::testing::StartsWith("All 1,204 stripes are whole; what is lost from now on stays lost"));
}

TEST_F(DataHealthTest, WhatCannotBeRebuiltNamesTheServersToBringBack) {
  lose_chunks();
  rig.meta->repairs.set_unrepairable(12);
  rig.meta->servers.mutable_servers(0)->set_liveness(proto::ServerState::DEAD);
  rig.meta->servers.mutable_servers(2)->set_liveness(proto::ServerState::DEAD);
  const DataHealth health = told();
  EXPECT_EQ(health.sentence,
            "12 of 1,204 stripes lack a chunk and can be read; 12 chunks cannot be rebuilt now.");
  EXPECT_EQ(health.action, "Start server-1 and server-3 again, or add servers.");
}

TEST_F(DataHealthTest, ARepairThatCannotBeginNamesTheServersToo) {
  lose_chunks();
  rig.meta->repairs.set_queued(12);  // as with fewer servers than a stripe has chunks
  rig.meta->servers.mutable_servers(1)->set_liveness(proto::ServerState::DEAD);
  const DataHealth health = told();
  EXPECT_THAT(health.sentence, ::testing::EndsWith("; their repair waits, and none runs."));
  EXPECT_EQ(health.action, "Start server-2 again, or add servers.");
}

TEST_F(DataHealthTest, UnreadableStripesStandBeforeAllOthers) {
  lose_chunks(/*without_spare=*/12);
  health().set_unreadable(2);
  rig.meta->servers.mutable_servers(1)->set_liveness(proto::ServerState::DEAD);
  repair(1, 40);
  const DataHealth health = told();
  EXPECT_EQ(health.level, Level::kBad);
  EXPECT_EQ(health.sentence, "2 of 1,204 stripes cannot be read: too few of their chunks are there.");
  EXPECT_EQ(health.action, "Start server-2 again, or bring back the disks.");
}

TEST_F(DataHealthTest, ServersThatHaveNotToldTheirChunksAreNamed) {
  health().add_not_reported()->set_name("server-1");
  const DataHealth health = told();
  EXPECT_EQ(health.level, Level::kWarning);
  EXPECT_EQ(health.sentence, "Nothing is known to be missing; server-1 has not told its chunks yet.");
}

TEST_F(DataHealthTest, OfRepairManagersThatDoNotAnswerItDoesNotDepend) {
  EXPECT_EQ(told().level, Level::kGood);
  rig.meta->repairs_status = Status(Code::kDeadlineExceeded, "the repair manager does not answer");
  lose_chunks(/*without_spare=*/12);
  EXPECT_EQ(told().level, Level::kBad);
}

TEST_F(DataHealthTest, WhatTheMetaserverDoesNotSayAnyMoreIsNotCalledWhole) {
  EXPECT_EQ(told().level, Level::kGood);
  rig.meta->space_status = Status(Code::kDeadlineExceeded, "it is busy");
  rig.report_for(10);
  const DataHealth health = told();
  EXPECT_EQ(health.level, Level::kWarning);
  EXPECT_THAT(health.sentence, ::testing::StartsWith("Whether all data is whole is not known"));
}

TEST_F(DataHealthTest, OfASilentMetaserverNothingElseIsSaid) {
  told();
  rig.kill_metaserver();
  rig.report_for(10);
  const DataHealth health = data_health(rig.monitor->watch(), wall_ns());
  EXPECT_EQ(health.level, Level::kBad);
  EXPECT_EQ(health.sentence,
            "The metaserver does not answer: nothing can be read or written until it is back.");
  EXPECT_EQ(health.action, "Check that its process and its machine (10.0.0.1:7000) run, and start it again.");
}

TEST_F(DataHealthTest, ServersInMaintenanceAreNamedWithTheTimeThatTheyHave) {
  rig.meta->servers.mutable_servers(1)->set_maintenance_seconds(7200);
  EXPECT_EQ(told().sentence, "All 1,204 stripes are whole; " + rig.meta->servers.servers(1).name() +
                                 " is in maintenance, for 2 h at most.");
  rig.meta->servers.mutable_servers(1)->set_liveness(proto::ServerState::DEAD);
  lose_chunks();
  rig.meta->repairs.set_delayed(12);
  EXPECT_THAT(told().sentence,
              ::testing::HasSubstr("lack a chunk and can be read; their repair waits for the end of a "
                                   "maintenance; "));
  rig.meta->servers.mutable_servers(0)->set_liveness(proto::ServerState::DEAD);
  EXPECT_THAT(told().sentence, ::testing::HasSubstr("their repair begins when the servers have been dead"))
      << "another one is dead, for which nobody waits so long";
}

}  // namespace
}  // namespace kintsugi::monitoring

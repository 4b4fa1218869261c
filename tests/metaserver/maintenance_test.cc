// Servers in maintenance, and the limit of repairs: what operators say while the cluster runs, and what is kept of it.
#include "common/base/operator_limits.h"
#include "tests/expect_ok.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

class Maintenance : public ::testing::Test {
 protected:
  Status maintain(ServerId server, uint64_t seconds) {
    proto::MaintainServerRequest request;
    request.set_server_id(server.value);
    request.set_seconds(seconds);
    return rig.status_of(rig.call<proto::Empty>(rpc::Method::kMaintainServer, request));
  }
  Status limit(uint64_t rate) {
    proto::LimitRepairsRequest request;
    request.set_bytes_per_second(rate);
    return rig.status_of(rig.call<proto::Empty>(rpc::Method::kLimitRepairs, request));
  }
  proto::ServerState state(ServerId server) {
    for (proto::ServerState& state : rig.server_states())
      if (state.server_id() == server.value) return state;
    return {};
  }
  double left(ServerId server) { return state(server).maintenance_seconds(); }
  size_t counted() { return rig.meta->stats().servers_in_maintenance; }

  MetaServerRig rig{1, 8, 8};
  const ServerId server = rig.servers[0].id;
};

TEST_F(Maintenance, EndsAtItsTime) {
  EXPECT_EQ(left(server), 0);
  KINTSUGI_ASSERT_OK(maintain(server, 60));
  EXPECT_NEAR(left(server), 60, 1);
  EXPECT_EQ(left(rig.servers[1].id), 0);
  EXPECT_EQ(counted(), 1u);
  EXPECT_EQ(rig.told.maintenance, std::vector<ServerId>{server});
  rig.pass(58);
  EXPECT_GT(left(server), 0);
  rig.pass(3);
  EXPECT_EQ(left(server), 0);
  EXPECT_EQ(counted(), 0u);
}

TEST_F(Maintenance, EndsWhenItsOperatorSaysSoAndMayBeMadeLonger) {
  KINTSUGI_ASSERT_OK(maintain(server, 60));
  KINTSUGI_ASSERT_OK(maintain(server, 7200));
  EXPECT_NEAR(left(server), 7200, 1);
  KINTSUGI_ASSERT_OK(maintain(server, 0));
  EXPECT_EQ(left(server), 0);
  EXPECT_EQ(rig.told.maintenance.size(), 3u) << "repair managers hear of each change";
}

TEST_F(Maintenance, OfNobodyOrForTooLongIsRefusedAndChangesNothing) {
  EXPECT_EQ(maintain(ServerId{12345}, 60).code(), Code::kNotFound);
  EXPECT_EQ(maintain(server, uint64_t(kMaxMaintenance.count()) + 1).code(), Code::kInvalidArgument);
  EXPECT_EQ(maintain(server, UINT64_MAX).code(), Code::kInvalidArgument);
  EXPECT_EQ(left(server), 0);
  EXPECT_TRUE(rig.told.maintenance.empty());
  KINTSUGI_EXPECT_OK(maintain(server, uint64_t(kMaxMaintenance.count())));
}

TEST_F(Maintenance, OutlivesTheMetaserverAndTheServersOwnRestart) {
  KINTSUGI_ASSERT_OK(maintain(server, 600));
  rig.restart();
  EXPECT_NEAR(left(server), 600, 5);
  FakeServer& fake = rig.server(server);
  fake.alive = false;
  rig.pass(12);
  EXPECT_EQ(state(server).liveness(), proto::ServerState::DEAD) << "it counts as away";
  EXPECT_GT(left(server), 0);
  EXPECT_EQ(rig.meta->stats().servers_awaited, 1u);
  fake.alive = true;
  fake.registered = false;
  ++fake.incarnation;
  rig.pass(2);
  EXPECT_EQ(rig.meta->stats().servers_awaited, 0u);
  EXPECT_EQ(state(server).liveness(), proto::ServerState::ALIVE);
  EXPECT_GT(left(server), 0) << "it may have to start several times";
}

TEST_F(Maintenance, IsOverWhenTheServerIsRemoved) {
  KINTSUGI_ASSERT_OK(maintain(server, 600));
  FakeServer& fake = rig.server(server);
  fake.alive = false;
  rig.pass(12);
  proto::RemoveServerRequest request;
  request.set_server_id(server.value);
  KINTSUGI_ASSERT_OK(rig.status_of(rig.call<proto::Empty>(rpc::Method::kRemoveServer, request)));
  EXPECT_EQ(counted(), 0u);
  fake.alive = true;
  fake.registered = false;
  ++fake.incarnation;
  rig.pass(2);
  EXPECT_EQ(left(server), 0);
}

TEST_F(Maintenance, AWallClockThatJumpsBackMakesNoneEndless) {
  KINTSUGI_ASSERT_OK(maintain(server, 3600));
  rig.meta_node.set_wall_offset(-48h);
  EXPECT_EQ(left(server), 0);
  EXPECT_EQ(counted(), 0u);
}

TEST_F(Maintenance, TheLongestIsNotOverWhenTheClockIsPutRight) {
  KINTSUGI_ASSERT_OK(maintain(server, uint64_t(kMaxMaintenance.count())));
  rig.meta_node.set_wall_offset(-20s);
  EXPECT_NEAR(left(server), double(kMaxMaintenance.count()), 1);
}

TEST_F(Maintenance, NewChunksGoElsewhereWhileOthersSuffice) {
  KINTSUGI_ASSERT_OK(maintain(server, 600));
  const auto placed = [&](int files) {
    int there = 0;
    for (int i = 0; i < files; ++i) {
      const auto allocated = rig.allocate("/g");
      EXPECT_TRUE(allocated) << allocated.error();
      if (!allocated) return -1;
      for (const auto& chunk : allocated->stripe().chunks())
        there += chunk.server_id() == server.value ? 1 : 0;
    }
    return there;
  };
  EXPECT_EQ(placed(20), 0) << "rs-3-2 has five chunks, and seven other servers";
  for (size_t i = 1; i <= 3; ++i)
    rig.servers[i].alive = false;
  rig.pass(12);
  EXPECT_EQ(placed(5), 5) << "without it writes would fail";
}

TEST_F(Maintenance, DiagnosisByHeartbeatsNamesItAndHoldsItsAbsenceAgainstNobody) {
  KINTSUGI_ASSERT_OK(maintain(server, 600));
  rig.server(server).alive = false;
  rig.servers[1].alive = false;
  Result<proto::DiagnoseResponse> answer = proto::DiagnoseResponse{};
  // Each is suspect before it is dead.
  for (int second = 0; second < 12; ++second) {
    rig.pass(1);
    answer = rig.call<proto::DiagnoseResponse>(rpc::Method::kDiagnose, proto::DiagnoseRequest{});
    ASSERT_TRUE(answer) << answer.error();
    for (const proto::Verdict& verdict : answer->verdicts())
      EXPECT_NE(verdict.server_id(), server.value) << "after " << second << " s";
  }
  ASSERT_EQ(answer->in_maintenance_size(), 1);
  EXPECT_EQ(answer->in_maintenance(0).server_id(), server.value);
  EXPECT_NEAR(answer->in_maintenance(0).seconds_left(), 588, 3);
  ASSERT_EQ(answer->verdicts_size(), 1);
  EXPECT_EQ(answer->verdicts(0).server_id(), rig.servers[1].id.value);
}

TEST_F(Maintenance, TheLimitOfRepairsIsBoundedAndKept) {
  EXPECT_EQ(limit(1).code(), Code::kInvalidArgument);
  EXPECT_EQ(limit(kLeastRepairLimit - 1).code(), Code::kInvalidArgument);
  EXPECT_EQ(limit(kMostRepairLimit + 1).code(), Code::kInvalidArgument);
  EXPECT_EQ(state(server).repair_limit_bytes_per_second(), 0u);
  KINTSUGI_ASSERT_OK(limit(50 << 20));
  EXPECT_EQ(state(server).repair_limit_bytes_per_second(), 50u << 20);
  rig.restart();
  EXPECT_EQ(state(server).repair_limit_bytes_per_second(), 50u << 20);
  proto::HeartbeatRequest heartbeat;
  rig.pass(2);
  heartbeat.set_server_id(server.value);
  heartbeat.set_incarnation(rig.servers[0].incarnation);
  heartbeat.set_sequence(1000);
  heartbeat.set_repair_limit_bytes_per_second(20 << 20);
  const auto answer = rig.call<proto::HeartbeatResponse>(rpc::Method::kHeartbeat, heartbeat);
  ASSERT_TRUE(answer) << answer.error();
  EXPECT_EQ(answer->repair_limit_bytes_per_second(), 50u << 20) << "so chunkservers learn it";
  EXPECT_EQ(state(server).repair_limit_bytes_per_second(), 20u << 20) << "the server's own is lower";
  KINTSUGI_ASSERT_OK(limit(0));
  rig.restart();
  EXPECT_EQ(state(rig.servers[1].id).repair_limit_bytes_per_second(), 0u);
}

}  // namespace
}  // namespace kintsugi::metaserver

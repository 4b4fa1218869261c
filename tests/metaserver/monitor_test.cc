// Where the monitor is: it says so to the metaserver, and everybody else asks there.
#include <set>

#include "common/proto/inode.pb.h"
#include "common/proto/sight.pb.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

class MonitorTest : public ::testing::Test {
 protected:
  Status says_it_lives(uint64_t id, const std::string& address, bool leaving = false) {
    proto::RegisterMonitorRequest request;
    request.set_monitor_id(id);
    request.set_address(address);
    request.set_http_address("web of " + address);
    request.set_leaving(leaving);
    request.set_newest_format(proto::kNewestFormat);
    const auto answer = rig.call<proto::RegisterMonitorResponse>(rpc::Method::kRegisterMonitor, request);
    return answer ? Status() : answer.error();
  }
  std::string found() {
    const auto answer =
        rig.call<proto::FindMonitorResponse>(rpc::Method::kFindMonitor, proto::FindMonitorRequest());
    if (!answer) return answer.error().to_string();
    if (!answer->address().empty()) {
      EXPECT_EQ(answer->http_address(), "web of " + answer->address());
    }
    return answer->address();
  }

  MetaServerRig rig;
};

TEST_F(MonitorTest, IsFoundUntilItsLeaseEnds) {
  EXPECT_EQ(found(), "");
  KINTSUGI_ASSERT_OK(says_it_lives(1, "10.0.0.9:1"));
  EXPECT_EQ(found(), "10.0.0.9:1");
  rig.simulation.run_for(MonitorLease::kLease - 1s);
  KINTSUGI_ASSERT_OK(says_it_lives(1, "10.0.0.9:1"));
  rig.simulation.run_for(MonitorLease::kLease - 1s);
  EXPECT_EQ(found(), "10.0.0.9:1") << "its lease was renewed";
  rig.simulation.run_for(2s);
  EXPECT_EQ(found(), "");
}

TEST_F(MonitorTest, OneThatLeavesIsForgottenAtOnce) {
  KINTSUGI_ASSERT_OK(says_it_lives(1, "10.0.0.9:1"));
  KINTSUGI_ASSERT_OK(says_it_lives(2, "10.0.0.9:2", /*leaving=*/true));
  EXPECT_EQ(found(), "10.0.0.9:1") << "another one left";
  KINTSUGI_ASSERT_OK(says_it_lives(1, "10.0.0.9:1", /*leaving=*/true));
  EXPECT_EQ(found(), "");
}

TEST_F(MonitorTest, TheNewestWinsUntilItIsGone) {
  KINTSUGI_ASSERT_OK(says_it_lives(1, "10.0.0.9:1"));
  KINTSUGI_ASSERT_OK(says_it_lives(2, "10.0.0.9:2"));
  EXPECT_EQ(found(), "10.0.0.9:2");
  const Status refused = says_it_lives(1, "10.0.0.9:1");
  EXPECT_EQ(refused.code(), Code::kConflict);
  EXPECT_NE(refused.message().find("10.0.0.9:2"), std::string::npos) << "it says who took the place";
  EXPECT_EQ(found(), "10.0.0.9:2");
  rig.simulation.run_for(MonitorLease::kLease);
  KINTSUGI_EXPECT_OK(says_it_lives(1, "10.0.0.9:1"));
  EXPECT_EQ(found(), "10.0.0.9:1");
}

TEST_F(MonitorTest, IsKnownAgainRightAfterARestartOfTheMetaserver) {
  KINTSUGI_ASSERT_OK(says_it_lives(1, "10.0.0.9:1"));
  rig.restart();
  EXPECT_EQ(found(), "");
  KINTSUGI_ASSERT_OK(says_it_lives(1, "10.0.0.9:1"));
  EXPECT_EQ(found(), "10.0.0.9:1");
}

TEST_F(MonitorTest, NonsenseChangesNothing) {
  KINTSUGI_ASSERT_OK(says_it_lives(1, "10.0.0.9:1"));
  EXPECT_EQ(says_it_lives(0, "10.0.0.9:2").code(), Code::kInvalidArgument);
  EXPECT_EQ(says_it_lives(2, "nowhere").code(), Code::kInvalidArgument);
  EXPECT_EQ(says_it_lives(2, std::string(100'000, 'x') + ":1").code(), Code::kInvalidArgument);
  EXPECT_EQ(found(), "10.0.0.9:1");
}

/// Ten servers that are alive, numbered from 0 on, and monitors that find some of them slow.
class SlowServersTest : public ::testing::Test {
 protected:
  static constexpr int kServers = 10;

  Status finds_slow(const std::vector<std::pair<int, double>>& slow, uint64_t monitor = 1) {
    proto::RegisterMonitorRequest request;
    request.set_monitor_id(monitor);
    request.set_address("10.0.1.1:1");
    request.set_newest_format(proto::kNewestFormat);
    for (const auto& [server, factor] : slow) {
      proto::SlowServer& one = *request.add_slow();
      one.set_server_id(100 + static_cast<uint64_t>(server));
      one.set_factor(factor);
      one.set_name("sdb");
    }
    const auto answer = rig.call<proto::RegisterMonitorResponse>(rpc::Method::kRegisterMonitor, request);
    return answer ? Status() : answer.error();
  }
  std::set<int> gone_around() {
    std::set<int> found;
    const auto answer = rig.call<proto::ListServersResponse>(rpc::Method::kListServers, proto::Empty());
    EXPECT_TRUE(answer);
    if (!answer) return found;
    for (const proto::ServerState& server : answer->servers())
      if (server.has_slow()) found.insert(static_cast<int>(server.server_id() - 100));
    return found;
  }

  MetaServerRig rig{1, kServers, kServers};
};

TEST_F(SlowServersTest, AreGoneAroundUntilTheMonitorTakesItBackOrIsSilent) {
  KINTSUGI_ASSERT_OK(finds_slow({{3, 2.5}}));
  EXPECT_EQ(gone_around(), std::set<int>{3});
  KINTSUGI_ASSERT_OK(finds_slow({}));
  EXPECT_EQ(gone_around(), std::set<int>{});
  KINTSUGI_ASSERT_OK(finds_slow({{3, 2.5}}));
  rig.pass(static_cast<int>(to_seconds(SlowServers::kBelieved)) - 2);
  EXPECT_EQ(gone_around(), std::set<int>{3}) << "the monitor is being restarted, perhaps";
  rig.pass(3);
  EXPECT_EQ(gone_around(), std::set<int>{});
}

TEST_F(SlowServersTest, AreNeverMoreThanAFifth) {
  std::vector<std::pair<int, double>> all;
  for (int server = 0; server < kServers; ++server)
    all.emplace_back(server, 2.0 + server);
  KINTSUGI_ASSERT_OK(finds_slow(all));
  EXPECT_EQ(gone_around(), (std::set<int>{8, 9})) << "the slowest";
  all[0].second = 50;
  KINTSUGI_ASSERT_OK(finds_slow(all));
  EXPECT_EQ(gone_around(), (std::set<int>{8, 9})) << "they do not take turns";
  all.resize(9);
  KINTSUGI_ASSERT_OK(finds_slow(all));
  EXPECT_EQ(gone_around(), (std::set<int>{0, 8}));
}

TEST_F(SlowServersTest, OneThatDoesNotWorkAtAllComesBeforeTheSlowest) {
  KINTSUGI_ASSERT_OK(finds_slow({{1, 5.0}, {2, 4.0}, {3, 0.0}}));
  EXPECT_EQ(gone_around(), (std::set<int>{1, 3}));
  KINTSUGI_ASSERT_OK(finds_slow({{1, 5.0}, {3, 0.0}, {4, 0.0}}));
  EXPECT_EQ(gone_around(), (std::set<int>{3, 4})) << "also before one that is avoided already";
}

TEST_F(SlowServersTest, NobodyBelievesAReplacedMonitorOrOneThatNamesStrangers) {
  KINTSUGI_ASSERT_OK(finds_slow({{3, 2.5}}, 1));
  KINTSUGI_ASSERT_OK(finds_slow({{4, 2.5}}, 2));
  EXPECT_EQ(finds_slow({{5, 2.5}}, 1).code(), Code::kConflict);
  EXPECT_EQ(gone_around(), std::set<int>{4});
  KINTSUGI_ASSERT_OK(finds_slow({{77, 9.0}, {4, 2.5}}, 2));
  EXPECT_EQ(gone_around(), std::set<int>{4});
}

TEST_F(SlowServersTest, AreKnownAgainOnceTheMonitorHasFoundARestartedMetaserver) {
  KINTSUGI_ASSERT_OK(finds_slow({{3, 2.5}}));
  rig.restart();
  rig.heartbeat_all();
  EXPECT_EQ(gone_around(), std::set<int>{});
  KINTSUGI_ASSERT_OK(finds_slow({{3, 2.5}}));
  EXPECT_EQ(gone_around(), std::set<int>{3});
}

TEST_F(SlowServersTest, GetNoNewStripesAndAreToldToReaders) {
  KINTSUGI_ASSERT_OK(finds_slow({{3, 2.5}}));
  for (int i = 0; i < 20; ++i) {
    const auto answer = rig.allocate("/f", 0, "rs-6-3-1024k");
    ASSERT_TRUE(answer);
    for (const proto::ChunkPlacement& chunk : answer->stripe().chunks())
      ASSERT_NE(chunk.server_id(), 103u);
  }
  proto::KeepSessionRequest keep;
  keep.set_session(1);
  keep.set_all(true);
  const auto kept = rig.call<proto::KeepSessionResponse>(rpc::Method::kKeepSession, keep);
  ASSERT_TRUE(kept);
  ASSERT_EQ(kept->slow_servers_size(), 1);
  EXPECT_EQ(kept->slow_servers(0), 103u);
}

}  // namespace
}  // namespace kintsugi::metaserver

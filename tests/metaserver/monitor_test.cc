// Where the monitor is: it says so to the metaserver, and everybody else asks there.
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

}  // namespace
}  // namespace kintsugi::metaserver

// A cluster that was upgraded keeps its format until an operator finalizes it: until then the version before works on it.
#include "common/proto/formats.h"

#include <gmock/gmock.h>

#include "common/proto/token.pb.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

using rpc::Method;
using testing::HasSubstr;

/// A cluster of the version before, on which this version was started.
class UpgradedCluster : public ::testing::Test {
 protected:
  UpgradedCluster() {
    KINTSUGI_EXPECT_OK(store_format(proto::kOldestFormat));
    restart();
  }

  void restart() {
    for (FakeServer& server : rig.servers)
      server.registered = false;
    rig.restart(/*crash=*/false);
    rig.heartbeat_all();
  }
  Status store_format(uint32_t format) {
    Transaction transaction(*rig.store);
    proto::StoredCluster cluster;
    cluster.set_cluster_id(rig.meta->cluster_id());
    cluster.set_format_version(format);
    transaction.put_message(keys::cluster(), cluster);
    return rig.simulation.run(rig.store->commit(transaction.take()));
  }
  uint32_t stored_format() {
    return Reader(*rig.store).get_message<proto::StoredCluster>(keys::cluster())->format_version();
  }
  /// A process with a program that knows this format takes the server's place.
  void change_program(FakeServer& server, uint32_t newest_format) {
    server.newest_format = newest_format;
    ++server.incarnation;
    server.registered = false;
    rig.heartbeat(server);
  }
  Status finalize() {
    const auto answer = rig.call<proto::FinalizeResponse>(Method::kFinalize, proto::Empty());
    if (answer) EXPECT_EQ(answer->format(), proto::kNewestFormat);
    return answer ? Status() : answer.error();
  }
  Status create_token() {
    proto::CreateTokenRequest request;
    request.mutable_claims()->set_name("ann");
    request.mutable_claims()->set_role(proto::TokenClaims::READ);
    const auto made = rig.call<proto::CreateTokenResponse>(Method::kCreateToken, request);
    return made ? Status() : made.error();
  }
  Status monitor_lives(uint32_t newest_format) {
    proto::RegisterMonitorRequest request;
    request.set_monitor_id(1);
    request.set_address("10.0.0.9:1");
    request.set_newest_format(newest_format);
    const auto answer = rig.call<proto::RegisterMonitorResponse>(Method::kRegisterMonitor, request);
    return answer ? Status() : answer.error();
  }

  MetaServerRig rig;
};

TEST(Formats, AClusterThatIsMadeHasTheNewest) {
  MetaServerRig rig;
  const auto status = rig.call<proto::MetadataStatusResponse>(Method::kMetadataStatus, proto::Empty());
  ASSERT_TRUE(status) << status.error();
  EXPECT_EQ(status->format(), proto::kNewestFormat);
  const auto again = rig.call<proto::FinalizeResponse>(Method::kFinalize, proto::Empty());
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->former_format(), again->format()) << "there is nothing to finalize";
}

TEST_F(UpgradedCluster, KeepsTheFormatThatTheVersionBeforeReads) {
  KINTSUGI_EXPECT_OK(rig.put("/file"));
  EXPECT_EQ(create_token().code(), Code::kNotSupported)
      << "what only the new version knows is not written yet";
  restart();
  EXPECT_EQ(stored_format(), proto::kOldestFormat);
  EXPECT_TRUE(rig.exists("/file"));
}

TEST_F(UpgradedCluster, TakesServersOfBothVersionsUntilItIsFinalized) {
  FakeServer& old = rig.servers[3];
  change_program(old, 0);
  EXPECT_TRUE(old.refusals.empty());
  const Status refused = finalize();
  EXPECT_EQ(refused.code(), Code::kConflict);
  EXPECT_THAT(refused.message(), HasSubstr(old.shown)) << "it names the server that is to be upgraded";
  EXPECT_EQ(stored_format(), proto::kOldestFormat);
  change_program(old, proto::kNewestFormat);
  KINTSUGI_EXPECT_OK(finalize());
  EXPECT_EQ(stored_format(), proto::kNewestFormat);
  KINTSUGI_EXPECT_OK(create_token());
}

TEST_F(UpgradedCluster, KeepsTheLimitOfRepairsWhenItIsFinalized) {
  proto::LimitRepairsRequest limit;
  limit.set_bytes_per_second(50 << 20);
  KINTSUGI_ASSERT_OK(rig.status_of(rig.call<proto::Empty>(Method::kLimitRepairs, limit)));
  EXPECT_EQ(stored_format(), proto::kOldestFormat) << "the version before leaves it alone";
  KINTSUGI_ASSERT_OK(finalize());
  restart();
  EXPECT_EQ(stored_format(), proto::kNewestFormat);
  EXPECT_EQ(rig.meta->state().servers.repair_limit.bytes_per_second(), 50u << 20);
}

TEST_F(UpgradedCluster, IsNotFinalizedWhileAServerIsAway) {
  rig.servers[2].alive = false;
  rig.pass(12);  // it is dead
  const Status refused = finalize();
  EXPECT_EQ(refused.code(), Code::kConflict);
  EXPECT_THAT(refused.message(), HasSubstr(rig.servers[2].shown));
}

TEST_F(UpgradedCluster, IsNotFinalizedWhileAServerIsBeingStopped) {
  FakeServer& stopping = rig.servers[2];
  stopping.leaving = true;
  rig.heartbeat(stopping);
  const Status refused = finalize();
  EXPECT_EQ(refused.code(), Code::kConflict);
  EXPECT_THAT(refused.message(), HasSubstr(stopping.shown)) << "it may come back with the version before";
  EXPECT_EQ(stored_format(), proto::kOldestFormat);
  stopping.leaving = false;
  rig.heartbeat(stopping);
  KINTSUGI_EXPECT_OK(finalize());
}

TEST_F(UpgradedCluster, IsNotFinalizedWhileTheMonitorIsOlder) {
  KINTSUGI_EXPECT_OK(monitor_lives(0));
  EXPECT_THAT(finalize().message(), HasSubstr("the monitor at 10.0.0.9:1"));
  KINTSUGI_EXPECT_OK(monitor_lives(proto::kNewestFormat));
  KINTSUGI_EXPECT_OK(finalize());
}

TEST_F(UpgradedCluster, RefusesTheVersionBeforeOnceItIsFinalized) {
  KINTSUGI_EXPECT_OK(finalize());
  FakeServer& old = rig.servers[3];
  change_program(old, 0);
  ASSERT_EQ(old.refusals.size(), 1u);
  EXPECT_EQ(old.refusals[0].code(), Code::kNotSupported);
  EXPECT_THAT(old.refusals[0].message(), HasSubstr("was finalized"));
  EXPECT_EQ(monitor_lives(0).code(), Code::kNotSupported);
  restart();
  old.refusals.clear();
  change_program(old, 0);
  EXPECT_EQ(old.refusals.size(), 1u) << "a restart has not forgotten";
}

TEST(Formats, MetadataOfALaterVersionIsRefusedAndLeftAlone) {
  MetaServerRig rig;
  for (const uint32_t format : {proto::kNewestFormat + 1, proto::kOldestFormat - 1}) {
    simulation::MemoryStoreDisk disk;
    simulation::MemoryStore store(rig.simulation.executor(), rig.simulation.clock(), disk);
    Transaction transaction(store);
    proto::StoredCluster cluster;
    cluster.set_cluster_id("blue");
    cluster.set_format_version(format);
    transaction.put_message(keys::cluster(), cluster);
    KINTSUGI_ASSERT_OK(rig.simulation.run(store.commit(transaction.take())));
    MetaServerOptions options;
    options.listen = {"10.0.0.1", 7999};
    MetaServer meta(*rig.meta_runtime, options, test_secret(), store);
    const Status started = rig.simulation.run(meta.start());
    EXPECT_EQ(started.code(), Code::kNotSupported);
    EXPECT_THAT(started.message(), HasSubstr("the metadata has format " + std::to_string(format)));
    EXPECT_THAT(started.message(), HasSubstr("install"));
    rig.simulation.run(meta.stop());
    EXPECT_EQ(Reader(store).get_message<proto::StoredCluster>(keys::cluster())->format_version(), format);
  }
}

}  // namespace
}  // namespace kintsugi::metaserver

// How many stripes lack chunks, as df and the metrics say it, and which servers have yet to say what they have.
#include "metaserver/repair/stripe_health.h"

#include "tests/expect_ok.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

proto::StripeHealth health(MetaServerRig& rig) {
  const auto free = rig.call<proto::DiskFreeResponse>(rpc::Method::kDiskFree, proto::Empty());
  EXPECT_TRUE(free);
  return free ? free->health() : proto::StripeHealth();
}

/// Loses one of the server's chunks, and tells it.
void lose_one(MetaServerRig& rig, FakeServer& server) {
  const ChunkId chunk = server.chunks.begin()->first;
  server.lost.push_back(chunk);
  server.chunks.erase(chunk);
  rig.pass(3);
}

TEST(StripeHealth, CountsStripesByHowManyLossesTheyStillSurvive) {
  MetaServerRig rig(1, 5, 5);
  for (int i = 0; i < 4; ++i)
    KINTSUGI_ASSERT_OK(rig.put(fmt::format("/f{}", i), 100));
  rig.pass(3);
  EXPECT_EQ(health(rig).degraded(), 0u);
  const auto dies = [&](size_t server) {
    rig.servers[server].alive = false;
    rig.pass(20);
    return health(rig);
  };
  proto::StripeHealth now = dies(0);
  EXPECT_EQ(now.degraded(), 400u);
  EXPECT_EQ(now.missing_chunks(), 400u);
  EXPECT_EQ(now.without_spare(), 0u);
  now = dies(1);
  EXPECT_EQ(now.degraded(), 400u) << "each stripe counts once, though it lacks two chunks";
  EXPECT_EQ(now.missing_chunks(), 800u);
  EXPECT_EQ(now.without_spare(), 400u);
  EXPECT_EQ(now.unreadable(), 0u);
  now = dies(2);
  EXPECT_EQ(now.degraded(), 400u);
  EXPECT_EQ(now.missing_chunks(), 1200u);
  EXPECT_EQ(now.without_spare(), 0u);
  EXPECT_EQ(now.unreadable(), 400u);
  EXPECT_EQ(rig.meta->stats().health.unreadable(), 400u) << "the metrics say the same";
  for (FakeServer& server : rig.servers)
    server.alive = true;
  rig.pass(5);
  EXPECT_EQ(health(rig).degraded(), 0u);
  EXPECT_EQ(health(rig).missing_chunks(), 0u);
}

TEST(StripeHealth, CountsAStripeOnceThatLacksChunksOnLivingAndDeadServers) {
  MetaServerRig rig(1, 5, 5);
  KINTSUGI_ASSERT_OK(rig.put("/f", 1));
  rig.pass(3);
  lose_one(rig, rig.servers[2]);
  rig.servers[0].alive = false;
  rig.pass(15);
  EXPECT_EQ(health(rig).degraded(), 1u);
  EXPECT_EQ(health(rig).missing_chunks(), 2u);
  EXPECT_EQ(health(rig).without_spare(), 1u);
  // A chunk that is known as lost and whose server is dead counts once, too.
  rig.servers[2].alive = false;
  rig.pass(15);
  EXPECT_EQ(health(rig).degraded(), 1u);
  EXPECT_EQ(health(rig).missing_chunks(), 2u);
}

TEST(StripeHealth, ForgetsStripesThatAreRemoved) {
  MetaServerRig rig(1, 5, 5);
  KINTSUGI_ASSERT_OK(rig.put("/f", 3));
  rig.servers[0].alive = false;
  rig.pass(15);
  EXPECT_EQ(health(rig).degraded(), 3u);
  KINTSUGI_ASSERT_OK(rig.remove("/f"));
  rig.pass(5);
  EXPECT_EQ(health(rig).degraded(), 0u);
}

TEST(StripeHealth, AStepIsBounded) {
  MetaServerRig rig(1, 5, 5);
  for (int i = 0; i < 5; ++i)
    KINTSUGI_ASSERT_OK(rig.put(fmt::format("/f{}", i), 100));
  rig.servers[0].alive = rig.servers[1].alive = false;
  rig.pass(13);
  StripeHealth walk(rig.meta->state().chunks.map);
  int steps = 1;
  while (walk.step(Reader(*rig.store)))
    ++steps;
  EXPECT_EQ(walk.counts().degraded(), 500u);
  EXPECT_GE(static_cast<size_t>(steps), 1000 / StripeHealth::kChunksOfAStep);
}

// ---- servers that have yet to say what they have

TEST(NotReported, IsAServerThatRegisteredUntilItsReportHasEnded) {
  MetaServerRig rig(1, 5, 5);
  KINTSUGI_ASSERT_OK(rig.put("/f", 3));
  rig.pass(60);
  EXPECT_EQ(rig.fsck().not_reported_size(), 0);
  EXPECT_EQ(health(rig).not_reported_size(), 0);
  rig.restart();
  EXPECT_EQ(rig.fsck().not_reported_size(), 5) << "nobody has registered yet";
  rig.servers[0].alive = false;
  rig.pass(2);
  proto::FsckResponse checked = rig.fsck();
  ASSERT_EQ(checked.not_reported_size(), 1);
  EXPECT_EQ(checked.not_reported(0).server_id(), rig.servers[0].id.value);
  EXPECT_EQ(health(rig).not_reported_size(), 1);
  rig.pass(15);
  EXPECT_EQ(rig.fsck().not_reported_size(), 0) << "it is dead: what it had is missing, and counted";
}

TEST(NotReported, IsAServerWhoseFirstReportCouldNotTellWhatItLost) {
  MetaServerRig rig(1, 5, 5);
  rig.pass(60);
  KINTSUGI_ASSERT_OK(rig.put("/f", 1));
  // It starts again with less than it had: an older copy of its directory.
  FakeServer& server = rig.servers[1];
  ASSERT_EQ(server.chunks.size(), 1u);
  server.chunks.clear();
  ++server.incarnation;
  server.registered = false;
  server.wants_report = true;
  rig.pass(2);
  const proto::FsckResponse early = rig.fsck();
  EXPECT_EQ(early.missing_chunks(), 0u) << "the report cannot tell";
  ASSERT_EQ(early.not_reported_size(), 1);
  EXPECT_EQ(early.not_reported(0).server_id(), server.id.value);
  rig.pass(25);
  const proto::FsckResponse later = rig.fsck();
  EXPECT_EQ(later.missing_chunks(), 1u);
  EXPECT_EQ(later.not_reported_size(), 0);
}

}  // namespace
}  // namespace kintsugi::metaserver

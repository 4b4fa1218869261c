// A repair is committed only where nothing has changed since it began; what servers and readers tell of chunks.
#include "tests/expect_ok.h"
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

/// A cluster with one stripe, of which a chunk is to move.
struct RepairRig : MetaServerRig {
  RepairRig() { KINTSUGI_EXPECT_OK(stored); }
  const Status stored = put("/f");
  const proto::Stripe stripe = open("/f")->stripes(0);
  const ChunkId chunk{StripeId{stripe.stripe_id()}, 1};
  FakeServer& from = server(ServerId{stripe.chunks(1).server_id()});
  FakeServer& to = *unused_by(stripe);
};

TEST(Repair, IsCommittedOnlyWhereNothingHasChanged) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  const ChunkId chunk{StripeId{stripe.stripe_id()}, 1};
  const ServerId place{stripe.chunks(1).server_id()}, neighbour{stripe.chunks(2).server_id()};
  std::set<uint64_t> used;
  for (const auto& placed : stripe.chunks())
    used.insert(placed.server_id());
  std::vector<ServerId> free;
  for (const FakeServer& server : rig.servers) {
    if (!used.contains(server.id.value)) free.push_back(server.id);
  }
  const auto commit = [&](ChunkId id, ServerId from, ServerId to) {
    return rig.commit_repair(id, from, to).code();
  };
  EXPECT_EQ(commit(chunk, free[0], free[1]), Code::kConflict);
  EXPECT_EQ(commit(chunk, place, neighbour), Code::kConflict);
  EXPECT_EQ(commit(chunk, place, ServerId{4711}), Code::kInvalidArgument);
  EXPECT_EQ(commit({chunk.stripe, 99}, place, free[0]), Code::kInvalidArgument);
  EXPECT_EQ(commit({StripeId{999999}, 0}, place, free[0]), Code::kNotFound);
  EXPECT_EQ(commit(chunk, place, free[0]), Code::kOk);
  EXPECT_EQ(commit(chunk, place, free[1]), Code::kConflict);
  rig.server(free[0]).chunks[chunk] = rig.server(place).chunks[chunk];
  rig.restart();
  rig.pass(3);
  EXPECT_EQ(rig.stripe(chunk.stripe)->chunks(1).server_id(), free[0].value);
  rig.expect_all_chunks_in_place();
}

TEST(Repair, ACopyThatWasTakenForGarbageBeforeItWasCommittedIsRefused) {
  RepairRig rig;
  const ChunkId chunk = rig.chunk;
  FakeServer &from = rig.from, &to = rig.to;
  rig.meta->repairs().begins(chunk, to.id);
  to.chunks[chunk] = from.chunks[chunk];
  rig.send_report(to);
  rig.pass(15);
  ASSERT_FALSE(to.chunks.contains(chunk)) << "the one in its place is available";
  EXPECT_EQ(rig.commit_repair(chunk, from.id, to.id).code(), Code::kConflict);
  EXPECT_EQ(rig.move(chunk, from.id, to.id), Status{}) << "another attempt";
  rig.pass(15);
  rig.expect_all_chunks_in_place();
}

TEST(Repair, ACopyThatIsGoneIsRefusedThoughAnotherRepairOfTheChunkHasBegun) {
  RepairRig rig;
  const ChunkId chunk = rig.chunk;
  FakeServer &from = rig.from, &to = rig.to;
  rig.meta->repairs().begins(chunk, to.id);
  to.chunks[chunk] = from.chunks[chunk];
  rig.send_report(to);
  rig.pass(15);
  ASSERT_FALSE(to.chunks.contains(chunk));
  // The repair manager stands still meanwhile, and another one has the stripe for a moment.
  rig.meta->repairs().begins(chunk, from.id);
  EXPECT_EQ(rig.commit_repair(chunk, from.id, to.id).code(), Code::kConflict);
  rig.pass(15);
  rig.expect_all_chunks_in_place();
}

TEST(Repair, ACopyThatAProcessBeforeTheServersWasToldToDeleteIsRefused) {
  RepairRig rig;
  const ChunkId chunk = rig.chunk;
  FakeServer &from = rig.from, &to = rig.to;
  rig.pass(15);  // what a process of the metaserver before this one ordered is done
  rig.meta->repairs().begins(chunk, to.id);
  to.chunks[chunk] = from.chunks[chunk];
  rig.send_report(to);
  to.deletes_later = true;  // it does not come to say that it is done
  rig.heartbeat(to);
  ASSERT_FALSE(to.chunks.contains(chunk));
  from.alive = false;
  rig.pass(13);
  ++to.incarnation;
  to.registered = false;
  rig.heartbeat(to);
  ASSERT_FALSE(rig.meta->repairs().deletion_pending(chunk, to.id))
      << "nothing is deleted now: no other copy is there";
  EXPECT_EQ(rig.commit_repair(chunk, from.id, to.id).code(), Code::kConflict);
  rig.expect_all_chunks_in_place();
}

// A tree stores several chunks, and the first of them long before the last.
TEST(Repair, ACopyThatItsServerHasLostBeforeItWasCommittedIsRefused) {
  RepairRig rig;
  const ChunkId chunk = rig.chunk;
  FakeServer &from = rig.from, &to = rig.to;
  from.alive = false;
  rig.pass(13);
  rig.told = {};
  rig.meta->repairs().begins(chunk, to.id);
  to.chunks[chunk] = from.chunks[chunk];
  to.chunks.erase(chunk);  // its disk failed
  to.lost = {chunk};
  rig.pass(2);
  EXPECT_TRUE(rig.told.lost.empty()) << "nobody looks for it there yet";
  EXPECT_EQ(rig.commit_repair(chunk, from.id, to.id).code(), Code::kConflict);
  EXPECT_EQ(rig.move(chunk, from.id, to.id), Status{}) << "another attempt";
  rig.expect_all_chunks_in_place();
}

TEST(Heartbeat, OneThatComesLateSaysNothing) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  const ChunkId chunk{StripeId{stripe.stripe_id()}, 1};
  FakeServer& server = rig.server(ServerId{stripe.chunks(1).server_id()});
  // It was on its way for a minute, and its caller has given it up and repeated it.
  proto::HeartbeatRequest late;
  late.set_server_id(server.id.value);
  late.set_incarnation(server.incarnation);
  late.set_sequence(++server.sequence);
  late.set_leaving(true);
  proto::ReportedChunk& lost = *late.add_lost();
  lost.set_stripe_id(chunk.stripe.value);
  lost.set_index(chunk.index);
  server.lost = {chunk};
  rig.heartbeat(server);
  ASSERT_EQ(rig.told.lost.size(), 1u);
  KINTSUGI_ASSERT_OK(rig.commit_repair(chunk, server.id, server.id));  // rebuilt where it was
  EXPECT_EQ(rig.call<proto::HeartbeatResponse>(rpc::Method::kHeartbeat, late).error().code(),
            Code::kConflict);
  EXPECT_EQ(rig.told.lost.size(), 1u) << "the chunk that was rebuilt is not lost";
  EXPECT_TRUE(rig.open("/f")->stripes(0).chunks(1).available());
  EXPECT_EQ(rig.meta->state().servers.registry.find(server.id)->liveness, proto::ServerState::ALIVE);
}

TEST(Repair, IsNotCommittedOnAServerThatIsDead) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  const ChunkId chunk{StripeId{stripe.stripe_id()}, 1};
  const ServerId place{stripe.chunks(1).server_id()};
  std::set<uint64_t> used;
  for (const auto& placed : stripe.chunks())
    used.insert(placed.server_id());
  for (FakeServer& server : rig.servers) {
    if (!used.contains(server.id.value)) server.alive = false;
  }
  rig.pass(13);
  for (const FakeServer& server : rig.servers) {
    if (server.alive) continue;
    EXPECT_EQ(rig.commit_repair(chunk, place, server.id).code(), Code::kUnavailable)
        << "its death was told already: the chunk would be lost and nobody know";
  }
}

TEST(Readers, ReportChunksThatCannotBeRead) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  proto::ReportChunkRequest report;
  report.set_stripe_id(stripe.stripe_id());
  report.set_index(1);
  report.set_server_id(stripe.chunks(2).server_id());
  report.set_corrupt(true);
  ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kReportChunk, report));
  EXPECT_TRUE(rig.told.lost.empty()) << "that is not where the chunk is";
  report.set_server_id(stripe.chunks(1).server_id());
  ASSERT_TRUE(rig.call<proto::Empty>(rpc::Method::kReportChunk, report));
  ASSERT_EQ(rig.told.lost.size(), 1u);
  EXPECT_FALSE(rig.open("/f")->stripes(0).chunks(1).available());
  proto::ShowStripeRequest show;
  show.set_stripe_id(stripe.stripe_id());
  EXPECT_EQ(rig.call<proto::ShowStripeResponse>(rpc::Method::kShowStripe, show)->state(), "degraded");
  report.set_stripe_id(987654);
  EXPECT_TRUE(rig.call<proto::Empty>(rpc::Method::kReportChunk, report));
}

}  // namespace
}  // namespace kintsugi::metaserver

// Requests of repair managers that the metaserver must refuse.
#include "tests/metaserver/metaserver_rig.h"

namespace kintsugi::metaserver {
namespace {

// Keys have a byte for an index, and messages have 32 bits.
TEST(RepairView, AChunkNumberThatNoKeyHoldsIsRefused) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f"));
  const proto::Stripe stripe = rig.open("/f")->stripes(0);
  const ServerId server{stripe.chunks(0).server_id()};
  for (const uint32_t index : {32u, 255u, 256u, UINT32_MAX}) {
    const ChunkId chunk{StripeId{stripe.stripe_id()}, index};
    rig.meta->repairs().begins(chunk, server);
    EXPECT_EQ(rig.meta->repairs().can_commit(chunk, {}, server).code(), Code::kInvalidArgument);
    EXPECT_EQ(rig.commit_repair(chunk, {}, server).code(), Code::kInvalidArgument);
    EXPECT_EQ(rig.meta->repairs().place_of(chunk), ServerId{});
  }
  const ChunkId beyond{StripeId{stripe.stripe_id()}, 256};
  EXPECT_EQ(rig.simulation.run(rig.meta->repairs().discard_copy(beyond, server)).code(),
            Code::kInvalidArgument);
}

TEST(RepairView, AScanGoesOnAfterAnyChunkNumber) {
  MetaServerRig rig;
  KINTSUGI_ASSERT_OK(rig.put("/f", 4));
  ServerId server;
  std::vector<ChunkId> all;
  for (const FakeServer& candidate : rig.servers) {
    server = candidate.id;
    all = rig.chunks_of(server);
    if (all.size() >= 2) break;
  }
  ASSERT_GE(all.size(), 2u);
  std::vector<ChunkId> scanned;
  scan_chunks_of(*rig.store, server, {all[0].stripe, UINT32_MAX}, [&](ChunkId chunk) {
    scanned.push_back(chunk);
    return true;
  });
  EXPECT_EQ(scanned, std::vector<ChunkId>(all.begin() + 1, all.end()));
}

}  // namespace
}  // namespace kintsugi::metaserver

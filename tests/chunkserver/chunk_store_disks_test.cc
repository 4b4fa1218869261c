#include "common/proto/formats.h"
#include "tests/chunkserver/store_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

TEST(ChunkStore, AFullDiskIsACleanErrorAndServesOnWhenSpaceComesBack) {
  StoreRig rig;
  rig.node.disk().set_capacity("/d0", 64 * kMiB);
  rig.start();
  Status status;
  uint64_t stored = 0;
  for (uint64_t stripe = 1; status.ok() && stripe < 40; ++stripe) {
    status = rig.put(chunk_id(stripe), chunk_bytes(8 * kMiB, stripe));
    if (status.ok()) ++stored;
  }
  EXPECT_EQ(status.code(), Code::kNoSpace) << status;
  EXPECT_GE(stored, 4u);
  EXPECT_EQ(rig.store->chunks(), stored);
  EXPECT_TRUE(rig.files("/d0/tmp").empty());
  for (uint64_t stripe = 1; stripe <= stored; ++stripe)
    EXPECT_EQ(*rig.get(chunk_id(stripe)), chunk_bytes(8 * kMiB, stripe));
  for (uint64_t stripe = 1; stripe <= stored; ++stripe)
    KINTSUGI_EXPECT_OK(rig.remove(chunk_id(stripe)));
  Status again = rig.put(chunk_id(100), chunk_bytes(8 * kMiB, 1));
  KINTSUGI_EXPECT_OK(again);
}

TEST(ChunkStore, SmallChunksOnAFullDiskFailCleanlyToo) {
  StoreRig rig;
  rig.start();
  KINTSUGI_ASSERT_OK(rig.put(chunk_id(1), chunk_bytes(1000, 1)));
  rig.node.disk().fill();
  Status status;
  for (uint64_t stripe = 2; status.ok() && stripe < 100; ++stripe) {
    status = rig.put(chunk_id(stripe), chunk_bytes(500'000, stripe));
  }
  EXPECT_EQ(status.code(), Code::kNoSpace) << status;
  EXPECT_EQ(*rig.get(chunk_id(1)), chunk_bytes(1000, 1));
  rig.node.disk().set_capacity("/", uint64_t{1} << 40);
  rig.simulation.run_for(DiskRoom::kTriedAgainAfter);
  KINTSUGI_EXPECT_OK(rig.put(chunk_id(200), chunk_bytes(500'000, 200)));
  rig.restart();
  EXPECT_EQ(*rig.get(chunk_id(200)), chunk_bytes(500'000, 200));
}

TEST(ChunkStore, ADiskFullOfSmallChunksHasRoomAgainWhenHalfOfThemAreDeleted) {
  StoreRig rig(1, 1, {.segment_bytes = 64 * kMiB});
  rig.node.disk().set_capacity("/d0", 256 * kMiB);
  rig.start();
  constexpr size_t kBytes = 400'000;
  uint64_t stored = 0;
  while (rig.put(chunk_id(stored + 1), chunk_bytes(kBytes, stored + 1)).ok())
    ++stored;
  ASSERT_GT(stored * kBytes, 100 * kMiB);
  // In all segments alike, so that none of them is worth much less than the others.
  uint64_t deleted = 0;
  for (uint64_t stripe = 1; stripe <= stored; ++stripe) {
    if (stripe % 5 >= 3) continue;
    KINTSUGI_ASSERT_OK(rig.remove(chunk_id(stripe)));
    ++deleted;
  }
  rig.simulation.run_for(10min);
  for (uint64_t stripe = 1; stripe <= deleted / 2; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(10'000 + stripe), chunk_bytes(kBytes, stripe)));
  for (uint64_t stripe = 3; stripe <= stored; stripe += 5)
    EXPECT_EQ(*rig.get(chunk_id(stripe)), chunk_bytes(kBytes, stripe));
}

TEST(ChunkStore, ABrokenDiskIsDroppedAloneAndItsChunksAreReportedLost) {
  StoreRig rig(1, 2);
  rig.node.disk().set_capacity("/d0", 1ull << 30);
  rig.node.disk().set_capacity("/d1", 1ull << 30);
  rig.start();
  for (uint64_t stripe = 1; stripe <= 10; ++stripe) {
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(2 * kMiB, stripe)));
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe, 1), chunk_bytes(5000, stripe)));
  }
  rig.node.disk().break_disk("/d0");
  for (uint64_t round = 0; round < 10; ++round) {
    for (uint64_t stripe = 1; stripe <= 10; ++stripe)
      (void)rig.get(chunk_id(stripe));
  }
  rig.simulation.run_for(30s);  // nothing that it is asked succeeds
  const StoreSpace space = rig.store->known_space();
  EXPECT_EQ(space.disks, 2u);
  EXPECT_EQ(space.failed_disks, 1u);
  auto lost = rig.store->take_lost();
  EXPECT_GE(lost.size(), 4u);
  EXPECT_EQ(lost.size() + rig.store->chunks(), 20u);
  for (const ChunkInfo& chunk : rig.store->list({}, 100)) {
    auto bytes = rig.get(chunk.id);
    ASSERT_TRUE(bytes) << bytes.error();
    EXPECT_EQ(crc32c(*bytes), chunk.crc);
  }
  KINTSUGI_EXPECT_OK(rig.put(chunk_id(50), chunk_bytes(2 * kMiB, 50)));
  EXPECT_EQ(*rig.get(chunk_id(50)), chunk_bytes(2 * kMiB, 50));
  // A restart without that disk serves what the other one has.
  rig.restart();
  EXPECT_EQ(*rig.get(chunk_id(50)), chunk_bytes(2 * kMiB, 50));
}

TEST(ChunkStore, RefusesADiskWithAFormatThatItDoesNotKnow) {
  StoreRig rig;
  rig.start();
  KINTSUGI_ASSERT_OK(rig.put(chunk_id(1), chunk_bytes(kMiB, 1)));
  KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store->join_cluster("blue", 7, proto::kNewestFormat)));
  rig.restart();
  EXPECT_EQ(rig.store->identity().format, proto::kNewestFormat);
  KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store->join_cluster("blue", 7, proto::kOldestFormat)));
  EXPECT_EQ(rig.store->identity().format, proto::kNewestFormat)
      << "metadata that was put back may have an older one";
  // A later version works on it, and then this one is installed again.
  KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store->join_cluster("blue", 7, proto::kNewestFormat + 1)));
  rig.stop();
  const Status refused = rig.try_start();
  EXPECT_EQ(refused.code(), Code::kNotSupported);
  EXPECT_NE(refused.message().find("/d0 has format"), std::string::npos) << refused;
  EXPECT_NE(refused.message().find("install"), std::string::npos) << refused;
}

TEST(ChunkStore, KeepsItsIdentityAndRefusesADiskOfAnotherServerOrCluster) {
  StoreRig rig;
  rig.start();
  ServerId id = rig.store->identity().server;
  EXPECT_TRUE(id);
  KINTSUGI_EXPECT_OK(rig.simulation.run(rig.store->join_cluster("blue", 7)));
  rig.restart();
  EXPECT_EQ(rig.store->identity().server, id);
  EXPECT_EQ(rig.store->identity().number, 7u);
  EXPECT_EQ(rig.simulation.run(rig.store->join_cluster("red", 7)).code(), Code::kConflict);
  KINTSUGI_EXPECT_OK(rig.simulation.run(rig.store->join_cluster("blue", 9)));
  rig.restart();
  EXPECT_EQ(rig.store->identity().number, 9u) << "a metaserver that lost its metadata may give another one";
  rig.stop();
  // Another server's disk.
  rig.options.disks = {"/d1"};
  rig.start();
  EXPECT_NE(rig.store->identity().server, id);
  rig.stop();
  rig.options.disks = {"/d0", "/d1"};
  EXPECT_EQ(rig.try_start().code(), Code::kConflict);
  rig.stop();
  // A new disk joins.
  rig.options.disks = {"/d0", "/d2"};
  rig.start();
  EXPECT_EQ(rig.store->identity().server, id);
}

TEST(ChunkStore, RemovesTheSecondCopyOfAChunkThatTwoDisksHave) {
  for (const size_t size : {size_t{20'000}, size_t{2 * kMiB}}) {
    StoreRig rig(1, 2);
    rig.start();
    const std::vector<std::string> both = rig.options.disks;
    // Each disk on its own is given the same chunk, as after a power loss that undid a removal.
    for (const std::string& disk : both) {
      rig.stop();
      rig.options.disks = {disk};
      rig.start();
      KINTSUGI_ASSERT_OK(rig.put(chunk_id(1), chunk_bytes(size, 1)));
    }
    for (int start = 0; start < 2; ++start) {
      rig.stop();
      rig.options.disks = both;
      rig.start();
      rig.simulation.run_for(1s);
      EXPECT_EQ(*rig.get(chunk_id(1)), chunk_bytes(size, 1));
    }
    rig.stop();
    size_t holders = 0;
    for (const std::string& disk : both) {
      rig.options.disks = {disk};
      rig.start();
      holders += rig.store->chunks();
      rig.stop();
    }
    EXPECT_EQ(holders, 1u) << size << " bytes";
  }
}

/// A store that has two copies of a chunk, the older one on a disk that hangs.
struct TwoCopies {
  explicit TwoCopies(size_t size) : rig(1, 2), bytes(chunk_bytes(size, 1)) {
    rig.node.disk().set_capacity("/d0", 1ull << 30);
    rig.node.disk().set_capacity("/d1", 16 * kMiB);  // too little for the chunk
    rig.start();
    KINTSUGI_EXPECT_OK(rig.put(id, bytes));
    rig.node.disk().set_capacity("/d1", 1ull << 30);
    rig.node.disk().set_hung(true, "/d0");
    rig.simulation.run_for(15s);
    KINTSUGI_EXPECT_OK(rig.put(id, bytes));
  }
  void answer() {
    rig.node.disk().set_hung(false, "/d0");
    rig.simulation.run_for(2 * SurplusCopies::kLookAgain);
  }
  StoreRig rig;
  const ChunkId id = chunk_id(1);
  const std::vector<std::byte> bytes;
};

TEST(ChunkStore, ACopyOnADiskThatHungIsKnownAgainWhenItsChunkWasDeletedMeanwhile) {
  for (const size_t size : {size_t{20'000}, size_t{2 * kMiB}}) {
    TwoCopies two(size);
    KINTSUGI_ASSERT_OK(two.rig.remove(two.id));
    two.answer();
    ASSERT_TRUE(two.rig.store->find(two.id)) << "nobody would ever delete what takes room there";
    EXPECT_EQ(two.rig.store->counters().copies_found, 1u) << "which the next report waits for";
    KINTSUGI_EXPECT_OK(two.rig.remove(two.id));
    two.rig.restart();
    EXPECT_EQ(two.rig.store->chunks(), 0u);
  }
}

TEST(ChunkStore, ACopyOnADiskThatHungIsServedWhenTheOtherOneWasFoundDamagedMeanwhile) {
  const size_t size = 2 * kMiB;
  TwoCopies two(size);
  KINTSUGI_ASSERT_OK(
      two.rig.node.disk().flip_bit(chunk_file(two.rig.node.disk(), "/d1", two.id), 4096 + 77, 3));
  EXPECT_EQ(two.rig.get(two.id).error().code(), Code::kCorrupt);
  two.answer();
  const auto read = two.rig.get(two.id);
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(*read, two.bytes);
}

TEST(ChunkStore, MakesNoNewIdentityWhileADiskThatMayKnowItCannotBeRead) {
  StoreRig rig(1, 2);
  rig.start();
  const ServerId id = rig.store->identity().server;
  rig.stop();
  // The first disk was replaced by an empty one, and the second does not answer just now.
  KINTSUGI_ASSERT_OK(rig.node.disk().remove_all("/d0"));
  rig.node.disk().break_disk("/d1");
  EXPECT_EQ(rig.try_start().code(), Code::kUnavailable);
  rig.stop();
  rig.node.disk().mend_disk("/d1");
  rig.start();
  EXPECT_EQ(rig.store->identity().server, id);
}

TEST(ChunkStore, IsBoundToItsClusterWhileTheMarkOfTheMetadataIsWritten) {
  for (Duration later{}; later < 1ms; later += 60us) {
    StoreRig rig;
    rig.start();
    KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store->join_cluster("blue", 3)));
    rig.store->keep_metadata_mark({.epoch = 7, .position = 9});
    rig.simulation.run_for(later);
    KINTSUGI_EXPECT_OK(rig.simulation.run(rig.store->join_cluster("blue", 4)));
    rig.simulation.run_for(2s);
    rig.restart();
    EXPECT_EQ(rig.store->identity().number, 4u) << later.count();
    EXPECT_EQ(rig.store->identity().metadata.position, 9u) << later.count();
  }
}

TEST(ChunkStore, UsesAFullDiskThoughItsMarkOfTheMetadataIsOld) {
  StoreRig rig(1, 2);
  rig.node.disk().set_capacity("/d0", uint64_t{1} << 30);
  rig.node.disk().set_capacity("/d1", uint64_t{1} << 30);
  rig.start();
  for (uint64_t i = 1; i <= 4; ++i)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(i), chunk_bytes(2 * kMiB, i)));
  KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store->join_cluster("blue", 3)));
  rig.node.disk().fill("/d1");
  rig.store->keep_metadata_mark({.epoch = 7, .position = 9});
  rig.simulation.run_for(2s);
  rig.restart();
  KINTSUGI_EXPECT_OK(rig.simulation.run(rig.store->join_cluster("blue", 3)));
  for (uint64_t i = 1; i <= 4; ++i) {
    const auto bytes = rig.get(chunk_id(i));
    ASSERT_TRUE(bytes) << bytes.error();
    EXPECT_EQ(*bytes, chunk_bytes(2 * kMiB, i));
  }
  EXPECT_EQ(rig.store->identity().metadata.position, 9u);
}

}  // namespace
}  // namespace kintsugi::chunkserver

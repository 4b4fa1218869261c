// The cache of chunks serves reads and repairs over the wire.
#include "tests/chunkserver/cluster_rig.h"
#include "tests/chunkserver/stripe_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

uint64_t reads_of(ClusterRig& rig, size_t server) {
  return rig.servers[server].node->disk().counters().reads;
}

TEST(CachedRead, TheSecondReadNeedsNoDisk) {
  ClusterRig rig(1);
  uint64_t stripe = 1;
  for (const size_t length : {5 * kMiB + 3, size_t{70'000}}) {
    const ChunkId id = chunk_id(stripe++);
    const auto bytes = chunk_bytes(length, stripe);
    KINTSUGI_ASSERT_OK(rig.put(0, id, bytes));
    ASSERT_EQ(*rig.get(0, id), bytes);
    const uint64_t reads = reads_of(rig, 0);
    for (int i = 0; i < 3; ++i)
      ASSERT_EQ(*rig.get(0, id), bytes);
    EXPECT_EQ(reads_of(rig, 0), reads);
    EXPECT_TRUE(rig.store(0).cache().cached(id));
  }
}

TEST(CachedRead, ManySmallChunksStayOpenToo) {
  ClusterRig rig(1);
  constexpr uint64_t kChunks = 600;
  for (uint64_t stripe = 1; stripe <= kChunks; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(stripe), chunk_bytes(3000, stripe)));
  for (uint64_t stripe = 1; stripe <= kChunks; ++stripe)
    ASSERT_TRUE(rig.get(0, chunk_id(stripe)));
  const uint64_t reads = reads_of(rig, 0);
  for (uint64_t stripe = 1; stripe <= kChunks; ++stripe)
    ASSERT_EQ(*rig.get(0, chunk_id(stripe)), chunk_bytes(3000, stripe));
  EXPECT_EQ(reads_of(rig, 0), reads);
}

TEST(CachedRead, ReadsOnlyWhatIsMissing) {
  ClusterRig rig(1);
  const auto bytes = chunk_bytes(4 * kMiB, 1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), bytes));
  ASSERT_TRUE(rig.get(0, chunk_id(1), kMiB, kMiB));
  const uint64_t before = rig.store(0).disk_bytes_read();
  ASSERT_EQ(*rig.get(0, chunk_id(1)), bytes);
  EXPECT_EQ(rig.store(0).disk_bytes_read() - before, 3 * kMiB);
  EXPECT_EQ(rig.store(0).cache().counters().misses, 4 * kMiB / kBlockBytes);
  EXPECT_EQ(rig.store(0).cache().counters().hits, kMiB / kBlockBytes);
  const uint64_t in_one_frame = rig.store(0).disk_bytes_read();
  ASSERT_TRUE(rig.get(0, chunk_id(1), kMiB / 2, 3 * kMiB));
  EXPECT_EQ(rig.store(0).disk_bytes_read(), in_one_frame);
}

TEST(CachedRead, ARemovedChunkIsNotServedFromMemory) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), chunk_bytes(2 * kMiB, 1)));
  ASSERT_TRUE(rig.get(0, chunk_id(1)));
  ASSERT_TRUE(rig.store(0).cache().cached(chunk_id(1)));
  KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store(0).remove(Context{}, chunk_id(1))));
  EXPECT_EQ(rig.get(0, chunk_id(1)).error().code(), Code::kNotFound);
  EXPECT_EQ(rig.store(0).cache().cached_bytes(), 0u);
  // A chunk that is written under the name anew is read anew.
  const auto other = chunk_bytes(2 * kMiB, 2);
  KINTSUGI_ASSERT_OK(rig.rebuild(0, chunk_id(1), other));
  EXPECT_EQ(*rig.get(0, chunk_id(1)), other);
}

TEST(CachedRead, AChunkFoundCorruptLeavesTheCacheToo) {
  ClusterRig rig(1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), chunk_bytes(4 * kMiB, 1)));
  ASSERT_TRUE(rig.get(0, chunk_id(1), 0, kMiB));
  const auto path = rig.servers[0].node->disk().list_now("/disk/chunks/01").at(0);
  KINTSUGI_ASSERT_OK(
      rig.servers[0].node->disk().flip_bit("/disk/chunks/01/" + path, kChunkDataOffset + 3 * kMiB));
  EXPECT_TRUE(rig.get(0, chunk_id(1), 0, kMiB)) << "these bytes are right";
  EXPECT_EQ(rig.get(0, chunk_id(1)).error().code(), Code::kCorrupt);
  EXPECT_EQ(rig.store(0).cache().cached_bytes(), 0u);
  EXPECT_EQ(rig.get(0, chunk_id(1), 0, kMiB).error().code(), Code::kNotFound);
}

TEST(CachedRead, ABlockThatWentBadInMemoryIsReadFromTheDisk) {
  ClusterRig rig(1);
  const auto bytes = chunk_bytes(2 * kMiB, 1);
  KINTSUGI_ASSERT_OK(rig.put(0, chunk_id(1), bytes));
  ChunkCache& cache = rig.store(0).cache();
  const CachedCopy first_copy{chunk_id(1), 1, bytes.size()};
  cache.admit(first_copy, 0, chunk_bytes(kBlockBytes, 2));
  EXPECT_EQ(*rig.get(0, chunk_id(1)), bytes);
  EXPECT_GT(cache.counters().hits, 0u) << "the bad block was not looked at";
  EXPECT_EQ(*rig.get(0, chunk_id(1)), bytes);
}

TEST(CachedRead, ARepairTakesWhatIsCachedAndPutsNothingIn) {
  StripeRig rig(std::vector<size_t>(StripeRig::kData, 3 * kMiB));
  ASSERT_TRUE(rig.get(1, rig.chunk(1)));
  const uint64_t from_cache = rig.store(1).disk_bytes_read(), from_disk = rig.store(2).disk_bytes_read();
  const auto repaired = rig.repair(StripeRig::kRoot, rig.repair_request(0, TestShape::kStar, kMiB));
  ASSERT_TRUE(repaired) << repaired.error();
  EXPECT_EQ(rig.store(1).disk_bytes_read(), from_cache);
  EXPECT_GE(rig.store(2).disk_bytes_read() - from_disk, 3 * kMiB);
  EXPECT_TRUE(rig.store(1).cache().cached(rig.chunk(1)));
  EXPECT_GT(rig.store(1).cache().counters().background_hits, 0u);
  for (size_t i = 2; i < rig.servers.size(); ++i)
    EXPECT_EQ(rig.store(i).cache().cached_bytes(), 0u);
  EXPECT_EQ(rig.store(2).usage().heat(rig.chunk(2)), 0);
}

}  // namespace
}  // namespace kintsugi::chunkserver

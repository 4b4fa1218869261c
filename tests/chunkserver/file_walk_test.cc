// Files that go away under a running store are missed without anybody reading them.
#include "chunkserver/store/disk/chunk_file.h"
#include "tests/chunkserver/store_rig.h"

namespace kintsugi::chunkserver {
namespace {

constexpr Duration kOneRound = FileWalk::kBetweenRounds + 2s;

std::string path_of(StoreRig& rig, ChunkId id) {
  return chunk_file(rig.node.disk(), "/d0", id);
}

std::vector<ChunkId> lost_chunks(StoreRig& rig) {
  std::vector<ChunkId> ids;
  for (const ChunkInfo& chunk : rig.store->take_lost())
    ids.push_back(chunk.id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

TEST(FileWalk, AChunkWhoseFileIsGoneOrHasAnotherLengthIsLostWithoutARead) {
  StoreRig rig;
  rig.start();
  for (uint64_t stripe = 1; stripe <= 5; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(2 * kMiB, stripe)));
  for (uint64_t stripe = 1; stripe <= 5; ++stripe)
    ASSERT_TRUE(rig.get(chunk_id(stripe))) << "whose file is open from here on";
  simulation::SimDisk& disk = rig.node.disk();
  KINTSUGI_ASSERT_OK(disk.remove_all(path_of(rig, chunk_id(1))));
  KINTSUGI_ASSERT_OK(disk.resize(path_of(rig, chunk_id(2)), kMiB));
  KINTSUGI_ASSERT_OK(disk.resize(path_of(rig, chunk_id(3)), 4 * kMiB));
  KINTSUGI_ASSERT_OK(disk.remove_all("/d0/chunks/04"));
  rig.simulation.run_for(kOneRound);
  EXPECT_EQ(lost_chunks(rig), (std::vector{chunk_id(1), chunk_id(2), chunk_id(3), chunk_id(4)}));
  EXPECT_EQ(rig.store->counters().corrupt_chunks, 4u);
  EXPECT_EQ(rig.store->known_space().failed_disks, 0u);
  EXPECT_EQ(rig.files("/d0/quarantine").size(), 2u) << "those that are there in part";
  EXPECT_EQ(*rig.get(chunk_id(5)), chunk_bytes(2 * kMiB, 5));
  // A repair may put them back, if not at the first attempt where the directory is gone as well.
  (void)rig.put(chunk_id(4), chunk_bytes(2 * kMiB, 4));
  for (uint64_t stripe = 1; stripe <= 4; ++stripe)
    KINTSUGI_EXPECT_OK(rig.put(chunk_id(stripe), chunk_bytes(2 * kMiB, stripe)));
  rig.simulation.run_for(kOneRound);
  EXPECT_TRUE(rig.store->take_lost().empty());
  rig.restart();
  EXPECT_EQ(rig.store->chunks(), 5u);
}

TEST(FileWalk, LooksAtAThousandFilesASecond) {
  StoreRig rig;
  rig.start();
  constexpr uint64_t kChunks = 500;
  for (uint64_t stripe = 1; stripe <= kChunks; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), std::vector<std::byte>(kMiB)));
  rig.restart();
  for (const std::string& directory : rig.files("/d0/chunks"))
    KINTSUGI_ASSERT_OK(rig.node.disk().remove_all("/d0/chunks/" + directory));
  rig.simulation.run_for(FileWalk::kBetweenRounds + 250ms);
  const size_t soon = rig.store->take_lost().size();
  EXPECT_GT(soon, 0u);
  EXPECT_LT(soon, 400u);
  rig.simulation.run_for(750ms);
  EXPECT_EQ(soon + rig.store->take_lost().size(), kChunks);
  EXPECT_EQ(rig.store->chunks(), 0u);
}

TEST(FileWalk, CondemnsNoneOfTheChunksThatComeAndGoMeanwhile) {
  SegmentLimits segments;
  segments.segment_bytes = 1 << 20;
  segments.clean_interval = 1s;
  StoreRig rig(1, 2, segments);
  rig.start();
  const auto churn = [](StoreRig& rig, uint64_t worker) -> asio::awaitable<void> {
    std::mt19937_64 random(worker);
    while (rig.simulation.clock().elapsed() < 20min) {
      const ChunkId id = chunk_id(worker * 100 + random() % 10);
      if (random() % 3 == 0) {
        (void)co_await rig.store->remove(Context{}, id);
        continue;
      }
      // It takes the place of the copy that is there, if one is.
      const size_t length = id.stripe.value % 3 == 0 ? 50'000 : kMiB;
      Status stored = co_await chunkserver::put(*rig.store, *rig.pool, id, std::vector<std::byte>(length));
      KINTSUGI_EXPECT_OK(stored);
    }
  };
  // So slow that the walk's questions overlap with everything else.
  rig.node.disk().set_speed({.bytes_per_second = 0, .latency = 100ms, .sync_latency = 100ms});
  runtime::TaskGroup workers(*rig.runtime);
  for (uint64_t worker = 1; worker <= 8; ++worker)
    workers.spawn(churn(rig, worker));
  rig.simulation.run(workers.join());
  EXPECT_TRUE(rig.store->take_lost().empty());
  EXPECT_EQ(rig.store->known_space().failed_disks, 0u);
}

TEST(FileWalk, TheChunksOfASegmentThatIsRemovedAreSaved) {
  StoreRig rig;
  rig.start();
  for (uint64_t stripe = 1; stripe <= 20; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(10'000, stripe)));
  KINTSUGI_ASSERT_OK(rig.remove(chunk_id(20)));
  const auto segments = rig.files("/d0/segments");
  ASSERT_EQ(segments.size(), 1u);
  KINTSUGI_ASSERT_OK(rig.node.disk().remove_all("/d0/segments/" + segments[0]));
  rig.simulation.run_for(kOneRound);
  // What is written from now on goes elsewhere.
  KINTSUGI_ASSERT_OK(rig.put(chunk_id(21), chunk_bytes(10'000, 21)));
  rig.simulation.run_for(rig.options.segments.clean_interval + 2s);
  EXPECT_TRUE(rig.store->take_lost().empty());
  rig.restart();
  EXPECT_EQ(rig.store->chunks(), 20u);
  for (uint64_t stripe = 1; stripe <= 21; ++stripe) {
    auto bytes = rig.get(chunk_id(stripe));
    if (stripe == 20) {
      EXPECT_EQ(bytes.error().code(), Code::kNotFound);
    } else {
      ASSERT_TRUE(bytes) << bytes.error();
      EXPECT_EQ(*bytes, chunk_bytes(10'000, stripe));
    }
  }
}

TEST(FileWalk, OfASegmentThatIsCutOffOnlyTheEndIsLost) {
  StoreRig rig;
  rig.start();
  for (uint64_t stripe = 1; stripe <= 20; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(10'000, stripe)));
  const auto segments = rig.files("/d0/segments");
  ASSERT_EQ(segments.size(), 1u);
  KINTSUGI_ASSERT_OK(rig.node.disk().resize("/d0/segments/" + segments[0], 100'000));
  rig.simulation.run_for(kOneRound);
  const auto lost = lost_chunks(rig);
  EXPECT_GT(lost.size(), 10u);
  EXPECT_LT(lost.size(), 20u);
  EXPECT_EQ(lost.size() + rig.store->chunks(), 20u);
  rig.simulation.run_for(3 * rig.options.segments.clean_interval);
  EXPECT_TRUE(rig.store->take_lost().empty());
  EXPECT_NE(rig.files("/d0/segments").at(0), segments[0]) << "what was left of it is in another one";
  rig.restart();
  EXPECT_EQ(lost.size() + rig.store->chunks(), 20u);
  for (const ChunkInfo& chunk : rig.store->list({}, 100))
    EXPECT_EQ(*rig.get(chunk.id), chunk_bytes(10'000, chunk.id.stripe.value));
}

}  // namespace
}  // namespace kintsugi::chunkserver

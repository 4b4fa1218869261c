// How the chunks of a server spread over its disks.
#include "chunkserver/store/disk_choice.h"

#include "tests/chunkserver/store_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint64_t kGiB = 1 << 30;

uint64_t chunks_on(const StoreRig& rig, size_t disk) {
  return rig.store->disk_reports().at(disk).chunks;
}

/// Four disks; those after the first have little room left, as after one of them was replaced.
void start_with_one_empty_disk(StoreRig& rig) {
  rig.node.disk().set_capacity("/d0", 4 * kGiB);
  for (const char* disk : {"/d1", "/d2", "/d3"})
    rig.node.disk().set_capacity(disk, kGiB);
  rig.start();
}

TEST(DiskChoice, NewChunksSpreadOverAllDisksByTheirFreeRoom) {
  StoreRig rig(1, 4);
  start_with_one_empty_disk(rig);
  for (uint64_t stripe = 1; stripe <= 140; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(300'000, stripe)));
  EXPECT_NEAR(static_cast<double>(chunks_on(rig, 0)), 80, 20);
  for (const size_t disk : {1, 2, 3})
    EXPECT_NEAR(static_cast<double>(chunks_on(rig, disk)), 20, 12) << disk;
}

TEST(DiskChoice, WritesThatRunSideBySideSpreadOverDisksThatAreEquallyFull) {
  StoreRig rig(1, 4);
  for (const char* disk : {"/d0", "/d1", "/d2", "/d3"})
    rig.node.disk().set_capacity(disk, 64 * kGiB);
  rig.start();
  std::vector<std::unique_ptr<ChunkWriter>> writers;
  std::array<size_t, 4> on{};
  for (uint64_t stripe = 1; stripe <= 80; ++stripe) {
    auto writer =
        rig.simulation.run(rig.store->create(Context{}, chunk_id(stripe), "rs-6-3-1024k", 64 * kMiB));
    ASSERT_TRUE(writer) << writer.error();
    writers.push_back(std::move(*writer));
  }
  const auto reports = rig.store->disk_reports();
  for (size_t disk = 0; disk < 4; ++disk) {
    on.at(disk) = (64 * kGiB - reports.at(disk).free_bytes) / (64 * kMiB);
    EXPECT_NEAR(static_cast<double>(on.at(disk)), 20, 3) << disk;
  }
  for (auto& writer : writers)
    rig.simulation.run(writer->abort());
}

TEST(DiskChoice, ASlowDiskGetsNoNewChunksWhileOthersAreWell) {
  StoreRig rig(1, 3);
  for (const char* disk : {"/d0", "/d1", "/d2"})
    rig.node.disk().set_capacity(disk, disk[2] == '0' ? 64 * kGiB : kGiB);
  rig.start();
  rig.node.disk().set_hung(true, "/d0");
  rig.simulation.run_for(DiskHealth::kSlowAfter + 2s);
  rig.node.disk().set_hung(false, "/d0");
  rig.simulation.run_for(1s);
  ASSERT_EQ(rig.store->disk_reports().at(0).condition, DiskCondition::kSlow);
  for (uint64_t stripe = 1; stripe <= 20; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(300'000, stripe)));
  EXPECT_EQ(chunks_on(rig, 0), 0u);
  // When all others are full it is better than none.
  rig.node.disk().fill("/d1");
  rig.node.disk().fill("/d2");
  rig.simulation.run_for(2s);
  ASSERT_EQ(rig.store->disk_reports().at(0).condition, DiskCondition::kSlow);
  KINTSUGI_EXPECT_OK(rig.put(chunk_id(100), chunk_bytes(300'000, 100)));
  EXPECT_EQ(chunks_on(rig, 0), 1u);
  rig.simulation.run_for(DiskHealth::kSlowFor);
  KINTSUGI_EXPECT_OK(rig.put(chunk_id(101), chunk_bytes(300'000, 101)));
  EXPECT_EQ(chunks_on(rig, 0), 2u);
}

TEST(DiskChoice, AChunkGoesWhereItFitsWhateverTheShareOfThatDisk) {
  StoreRig rig(1, 2);
  rig.node.disk().set_capacity("/d0", 40 * kMiB);
  rig.node.disk().set_capacity("/d1", 90 * kMiB);
  rig.start();
  for (uint64_t stripe = 1; stripe <= 8; ++stripe) {
    auto writer =
        rig.simulation.run(rig.store->create(Context{}, chunk_id(stripe), "rs-6-3-1024k", 64 * kMiB));
    ASSERT_TRUE(writer) << writer.error();
    rig.simulation.run((*writer)->abort());
  }
  auto none = rig.simulation.run(rig.store->create(Context{}, chunk_id(9), "rs-6-3-1024k", 80 * kMiB));
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::kNoSpace);
}

}  // namespace
}  // namespace kintsugi::chunkserver

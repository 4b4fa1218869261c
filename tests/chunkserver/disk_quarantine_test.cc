// Damaged files are kept for people, but not so many that they fill the disk.
#include "chunkserver/store/disk/disk_quarantine.h"

#include "tests/chunkserver/store_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

constexpr char kDirectory[] = "/d0/quarantine";

asio::awaitable<Status> make_file(runtime::Disk& disk, std::string path, uint64_t bytes) {
  KINTSUGI_CO_ASSIGN(const auto file, co_await disk.open(std::move(path), runtime::OpenMode::kCreate));
  co_return co_await file->truncate(bytes);
}

class DiskQuarantineTest : public testing::Test {
 protected:
  DiskQuarantineTest() {
    rig_.node.disk().set_capacity("/d0", uint64_t{1} << 40);
    KINTSUGI_EXPECT_OK(rig_.simulation.run(disk().make_directory(kDirectory)));
  }
  runtime::Disk& disk() { return rig_.node.disk().view(); }
  void make(const std::string& path, uint64_t bytes) {
    KINTSUGI_EXPECT_OK(rig_.simulation.run(make_file(disk(), path, bytes)));
  }
  void take(DiskQuarantine& quarantine, uint64_t bytes) {
    make("/d0/bad", bytes);
    const auto taken = rig_.simulation.run(quarantine.take("/d0/bad", "chunk"));
    ASSERT_TRUE(taken) << taken.error();
    EXPECT_TRUE(rig_.node.disk().exists(*taken));
  }
  std::vector<std::string> names() { return rig_.node.disk().list_now(kDirectory); }

  StoreRig rig_;
};

TEST_F(DiskQuarantineTest, KeepsTheNewestFilesUpToItsNumber) {
  DiskQuarantine quarantine(disk(), kDirectory);
  for (size_t i = 0; i < DiskQuarantine::kMostFiles + 20; ++i)
    take(quarantine, 10);
  EXPECT_EQ(names().size(), DiskQuarantine::kMostFiles);
  EXPECT_EQ(quarantine.files(), DiskQuarantine::kMostFiles);
  EXPECT_EQ(quarantine.bytes(), 10 * DiskQuarantine::kMostFiles);
  EXPECT_FALSE(rig_.node.disk().exists(std::string(kDirectory) + "/chunk.20"));
  EXPECT_TRUE(rig_.node.disk().exists(std::string(kDirectory) + "/chunk.21"));
}

TEST_F(DiskQuarantineTest, KeepsTheNewestFilesUpToItsBytesAndALargerOneAlone) {
  DiskQuarantine quarantine(disk(), kDirectory);
  for (int i = 0; i < 6; ++i)
    take(quarantine, 1ull << 30);
  EXPECT_EQ(names(), (std::vector<std::string>{"chunk.3", "chunk.4", "chunk.5", "chunk.6"}));
  EXPECT_EQ(quarantine.bytes(), 4ull << 30);
  take(quarantine, 5ull << 30);
  EXPECT_EQ(names(), std::vector<std::string>{"chunk.7"});
}

TEST_F(DiskQuarantineTest, RemovesAtTheStartWhatIsTooMuchAndLeavesAloneWhatPeoplePutThere) {
  for (int i = 1; i <= 6; ++i)
    make(fmt::format("{}/chunk.{}", kDirectory, i * 9),
         1ull << 30);  // 9 is older than 18, whatever the order of names
  make(std::string(kDirectory) + "/notes.txt", 10);
  DiskQuarantine quarantine(disk(), kDirectory);
  KINTSUGI_ASSERT_OK(rig_.simulation.run(quarantine.load()));
  EXPECT_EQ(quarantine.files(), 4u);
  EXPECT_FALSE(rig_.node.disk().exists(std::string(kDirectory) + "/chunk.9"));
  EXPECT_FALSE(rig_.node.disk().exists(std::string(kDirectory) + "/chunk.18"));
  EXPECT_TRUE(rig_.node.disk().exists(std::string(kDirectory) + "/notes.txt"));
  // Somebody tidies up, and names go on from the last one.
  KINTSUGI_ASSERT_OK(rig_.node.disk().remove_all(std::string(kDirectory) + "/chunk.27"));
  take(quarantine, 1ull << 30);
  EXPECT_TRUE(rig_.node.disk().exists(std::string(kDirectory) + "/chunk.55"));
  EXPECT_EQ(quarantine.files(), 4u);
}

TEST_F(DiskQuarantineTest, WhatCannotBeRemovedNowIsCountedAndTriedAgain) {
  DiskQuarantine quarantine(disk(), kDirectory);
  for (int i = 0; i < 4; ++i)
    take(quarantine, 1ull << 30);
  rig_.node.disk().fail_next(1, Code::kIoError, kDirectory, simulation::DiskOp::kRemove);
  take(quarantine, 1ull << 30);
  EXPECT_EQ(quarantine.files(), 5u);
  EXPECT_EQ(names().size(), 5u);
  take(quarantine, 1ull << 30);
  EXPECT_EQ(quarantine.files(), 4u);
  EXPECT_EQ(names(), (std::vector<std::string>{"chunk.3", "chunk.4", "chunk.5", "chunk.6"}));
}

TEST_F(DiskQuarantineTest, IsCountedForEachDiskOfAStore) {
  rig_.start();
  KINTSUGI_ASSERT_OK(rig_.put(chunk_id(0x51), chunk_bytes(3 << 20, 1)));
  KINTSUGI_ASSERT_OK(
      rig_.node.disk().flip_bit(chunk_file(rig_.node.disk(), "/d0", chunk_id(0x51)), 4096 + 77));
  EXPECT_FALSE(rig_.get(chunk_id(0x51)));
  rig_.simulation.run_for(1s);
  EXPECT_EQ(rig_.store->disk_reports().at(0).quarantined_files, 1u);
  EXPECT_GT(rig_.store->disk_reports().at(0).quarantined_bytes, 3u << 20);
  rig_.restart();
  EXPECT_EQ(rig_.store->disk_reports().at(0).quarantined_files, 1u);
}

}  // namespace
}  // namespace kintsugi::chunkserver

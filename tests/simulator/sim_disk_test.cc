#include <gtest/gtest.h>

#include "common/runtime/task_group.h"
#include "tests/expect_ok.h"
#include "tests/simulation/runtime/sim_node.h"
#include "tests/simulator/sim_support.h"

namespace kintsugi::simulation {
namespace {

using runtime::Disk;
using runtime::OpenMode;

constexpr size_t kBlock = runtime::kDiskAlignment;

class SimDiskTest : public testing::Test {
 protected:
  Disk& disk() { return node_.runtime().disk; }
  std::unique_ptr<runtime::File> open(const std::string& path, OpenMode mode) {
    auto file = simulation_.run(disk().open(path, mode));
    EXPECT_TRUE(file) << file.error();
    return std::move(*file);
  }
  Status write(runtime::File& file, uint64_t offset, const AlignedBytes& bytes) {
    return simulation_.run(file.write(offset, bytes.span()));
  }
  Status make(const std::string& path, const AlignedBytes& bytes, bool synced) {
    auto created = simulation_.run(disk().open(path, OpenMode::kCreate));
    if (!created) return created.error();
    KINTSUGI_TRY(write(**created, 0, bytes));
    return synced ? simulation_.run((*created)->sync()) : Status{};
  }
  Status sync_directory(const std::string& path) { return simulation_.run(disk().sync_directory(path)); }
  void crash_and_restart(bool power_loss = true) {
    node_.crash(power_loss);
    node_.restart();
  }
  /// Value of every byte of the block, or -1 when they differ.
  int value_at(const std::string& path, size_t block, size_t block_bytes = kBlock) {
    auto bytes = node_.disk().read_now(path);
    EXPECT_TRUE(bytes) << bytes.error();
    if (!bytes || bytes->size() < (block + 1) * block_bytes) return -2;
    const auto begin = bytes->begin() + static_cast<ptrdiff_t>(block * block_bytes);
    const auto end = begin + static_cast<ptrdiff_t>(block_bytes);
    const bool same = std::all_of(begin, end, [&](std::byte b) { return b == *begin; });
    return same ? static_cast<int>(*begin) : -1;
  }

  Simulation simulation_{Simulation::seed_from_environment(3)};
  SimNode node_{simulation_, "10.0.0.1"};
};

TEST_F(SimDiskTest, ReadsBackWhatWasWrittenAndFewerBytesAtTheEnd) {
  auto file = open("/f", OpenMode::kCreate);
  const auto content = random_bytes(5 * 64 * 1024, 1);
  AlignedBytes bytes(content.size());
  std::copy(content.begin(), content.end(), bytes.span().begin());
  KINTSUGI_ASSERT_OK(write(*file, kBlock, bytes));
  AlignedBytes into(content.size() + kBlock);
  auto got = simulation_.run(file->read(kBlock, into.span()));
  ASSERT_TRUE(got);
  EXPECT_EQ(*got, content.size());
  EXPECT_TRUE(std::equal(content.begin(), content.end(), into.span().begin()));
  EXPECT_EQ(value_at("/f", 0), 0);
  EXPECT_EQ(*simulation_.run(file->size()), content.size() + kBlock);
  EXPECT_EQ(*simulation_.run(file->read(10 << 20, into.span())), 0u);
}

TEST_F(SimDiskTest, NamesFollowPosix) {
  KINTSUGI_ASSERT_OK(simulation_.run(disk().make_directory("/d/e")));
  KINTSUGI_ASSERT_OK(simulation_.run(disk().make_directory("/d/e")));
  KINTSUGI_ASSERT_OK(make("/d/x", AlignedBytes(kBlock, 1), true));
  KINTSUGI_ASSERT_OK(make("/d/y", AlignedBytes(kBlock, 2), true));
  EXPECT_EQ(simulation_.run(disk().open("/d/x", OpenMode::kCreate)).error().code(), Code::kAlreadyExists);
  EXPECT_EQ(simulation_.run(disk().open("/d/z", OpenMode::kRead)).error().code(), Code::kNotFound);
  EXPECT_EQ(simulation_.run(disk().remove("/d")).code(), Code::kNotEmpty);
  EXPECT_EQ(simulation_.run(disk().list("/d/x")).error().code(), Code::kNotDirectory);
  EXPECT_EQ(*simulation_.run(disk().list("/d")), (std::vector<std::string>{"e", "x", "y"}));
  auto file = open("/d/y", OpenMode::kReadWrite);
  KINTSUGI_ASSERT_OK(simulation_.run(disk().rename("/d/x", "/d/y")));
  EXPECT_EQ(value_at("/d/y", 0), 1);
  AlignedBytes into(kBlock);
  EXPECT_EQ(*simulation_.run(file->read(0, into.span())),
            kBlock);  // the replaced file lives while it is open
  EXPECT_EQ(into[0], std::byte{2});
}

TEST_F(SimDiskTest, APathIsTheSameFileUntilAnotherOneTakesItsPlace) {
  KINTSUGI_ASSERT_OK(make("/x", AlignedBytes(kBlock, 1), true));
  KINTSUGI_ASSERT_OK(make("/y", AlignedBytes(2 * kBlock, 2), true));
  const auto x = simulation_.run(disk().attributes("/x"));
  const auto y = simulation_.run(disk().attributes("/y"));
  EXPECT_EQ(x->bytes, kBlock);
  EXPECT_NE(x->identity, y->identity);
  KINTSUGI_ASSERT_OK(simulation_.run(disk().rename("/y", "/x")));
  EXPECT_EQ(simulation_.run(disk().attributes("/x"))->identity, y->identity);
  EXPECT_EQ(simulation_.run(disk().attributes("/y")).error().code(), Code::kNotFound);
}

TEST_F(SimDiskTest, ALockIsHeldByOneUntilItLetsGoOrItsMachineCrashes) {
  auto first = simulation_.run(disk().lock("/lock"));
  ASSERT_TRUE(first) << first.error();
  EXPECT_EQ(simulation_.run(disk().lock("/lock")).error().code(), Code::kConflict);
  first->reset();
  auto second = simulation_.run(disk().lock("/lock"));
  ASSERT_TRUE(second) << second.error();
  crash_and_restart();
  auto third = simulation_.run(disk().lock("/lock"));
  ASSERT_TRUE(third) << "a crash releases it: " << third.error();
  second->reset();
  EXPECT_EQ(simulation_.run(disk().lock("/lock")).error().code(), Code::kConflict)
      << "what is left of the crashed one has nothing to release";
}

TEST_F(SimDiskTest, WhatIsTakenAwayIsGoneForAllButThoseWhoHaveItOpen) {
  KINTSUGI_ASSERT_OK(simulation_.run(disk().make_directory("/d/e")));
  KINTSUGI_ASSERT_OK(make("/d/e/f", AlignedBytes(kBlock, 1), true));
  auto file = open("/d/e/f", OpenMode::kRead);
  KINTSUGI_ASSERT_OK(node_.disk().remove_all("/d"));
  EXPECT_EQ(simulation_.run(disk().list("/d")).error().code(), Code::kNotFound);
  AlignedBytes into(kBlock);
  EXPECT_EQ(*simulation_.run(file->read(0, into.span())), kBlock);
  EXPECT_EQ(node_.disk().remove_all("/d").code(), Code::kNotFound);
}

TEST_F(SimDiskTest, SyncedDataAndNamesSurviveEveryPowerCut) {
  KINTSUGI_ASSERT_OK(simulation_.run(disk().make_directory("/d")));
  KINTSUGI_ASSERT_OK(sync_directory("/"));
  KINTSUGI_ASSERT_OK(make("/d/f", AlignedBytes(1 << 20, 7), true));
  KINTSUGI_ASSERT_OK(sync_directory("/d"));
  for (int i = 0; i < 50; ++i) {
    crash_and_restart();
    ASSERT_TRUE(node_.disk().exists("/d/f"));
    for (size_t block = 0; block < 256; ++block)
      ASSERT_EQ(value_at("/d/f", block), 7);
    AlignedBytes scribble(kBlock, static_cast<char>(i));  // unsynced changes elsewhere
    KINTSUGI_ASSERT_OK(make("/d/other" + std::to_string(i), scribble, false));
  }
}

TEST_F(SimDiskTest, UnsyncedDataIsLostWhenThePowerFails) {
  node_.disk().set_unsynced(Unsynced::kDropped);
  KINTSUGI_ASSERT_OK(make("/f", AlignedBytes(2 * kBlock, 1), true));
  KINTSUGI_ASSERT_OK(sync_directory("/"));
  auto file = open("/f", OpenMode::kReadWrite);
  KINTSUGI_ASSERT_OK(write(*file, kBlock, AlignedBytes(2 * kBlock, 9)));
  EXPECT_EQ(value_at("/f", 2), 9);
  crash_and_restart();
  EXPECT_EQ(value_at("/f", 0), 1);
  EXPECT_EQ(value_at("/f", 1), 1);
  EXPECT_EQ(value_at("/f", 2), -2);  // the size is what it was
}

TEST_F(SimDiskTest, AKilledProcessLosesNothingItWrote) {
  node_.disk().set_unsynced(Unsynced::kDropped);
  KINTSUGI_ASSERT_OK(make("/f", AlignedBytes(kBlock, 1), false));
  crash_and_restart(/*power_loss=*/false);
  EXPECT_EQ(value_at("/f", 0), 1);
}

TEST_F(SimDiskTest, UnsyncedWritesMayBeKeptDroppedOrTornBySectors) {
  int kept = 0, dropped = 0, torn = 0;
  KINTSUGI_ASSERT_OK(make("/f", AlignedBytes(16 * kBlock, 1), true));
  KINTSUGI_ASSERT_OK(sync_directory("/"));
  for (int i = 0; i < 60; ++i) {
    auto file = open("/f", OpenMode::kReadWrite);
    KINTSUGI_ASSERT_OK(write(*file, 0, AlignedBytes(16 * kBlock, 1)));
    KINTSUGI_ASSERT_OK(simulation_.run(file->sync()));
    KINTSUGI_ASSERT_OK(write(*file, 0, AlignedBytes(16 * kBlock, 2)));
    crash_and_restart();
    size_t fresh = 0, inside_of_blocks = 0;
    constexpr size_t kSectors = 16 * kBlock / kSectorBytes;
    for (size_t sector = 0; sector < kSectors; ++sector) {
      const int value = value_at("/f", sector, kSectorBytes);
      ASSERT_TRUE(value == 1 || value == 2) << value;
      fresh += value == 2;
    }
    for (size_t block = 0; block < 16; ++block)
      inside_of_blocks += value_at("/f", block) == -1;
    (fresh == kSectors ? kept : fresh == 0 ? dropped : torn) += 1;
    EXPECT_EQ(inside_of_blocks > 0, fresh != kSectors && fresh != 0);
  }
  EXPECT_GT(kept, 5);
  EXPECT_GT(dropped, 5);
  EXPECT_GT(torn, 5);
}

TEST_F(SimDiskTest, ARenameWithoutDirectorySyncMayBeLostButNeverHalfDone) {
  int lost = 0, kept = 0;
  for (int i = 0; i < 60; ++i) {
    const std::string from = "/a" + std::to_string(i), to = "/b" + std::to_string(i);
    KINTSUGI_ASSERT_OK(make(from, AlignedBytes(kBlock, 1), true));
    KINTSUGI_ASSERT_OK(sync_directory("/"));
    KINTSUGI_ASSERT_OK(simulation_.run(disk().rename(from, to)));
    crash_and_restart();
    ASSERT_NE(node_.disk().exists(from), node_.disk().exists(to));
    (node_.disk().exists(to) ? kept : lost) += 1;
  }
  EXPECT_GT(lost, 5);
  EXPECT_GT(kept, 5);
}

TEST_F(SimDiskTest, ARenameIsDurableAfterSyncOfBothDirectories) {
  for (const char* directory : {"/tmp", "/chunks"}) {
    KINTSUGI_ASSERT_OK(simulation_.run(disk().make_directory(directory)));
  }
  KINTSUGI_ASSERT_OK(sync_directory("/"));
  node_.disk().set_unsynced(Unsynced::kDropped);
  KINTSUGI_ASSERT_OK(make("/tmp/c", AlignedBytes(kBlock, 1), true));
  KINTSUGI_ASSERT_OK(sync_directory("/tmp"));
  KINTSUGI_ASSERT_OK(simulation_.run(disk().rename("/tmp/c", "/chunks/c")));
  KINTSUGI_ASSERT_OK(sync_directory("/chunks"));
  node_.crash();
  EXPECT_EQ(value_at("/chunks/c", 0), 1);
  EXPECT_EQ(value_at("/tmp/c", 0), 1);  // its removal was not synced
  node_.restart();
  KINTSUGI_ASSERT_OK(simulation_.run(disk().remove("/tmp/c")));
  KINTSUGI_ASSERT_OK(sync_directory("/tmp"));
  crash_and_restart();
  EXPECT_FALSE(node_.disk().exists("/tmp/c"));
  EXPECT_EQ(value_at("/chunks/c", 0), 1);
}

TEST_F(SimDiskTest, ASyncCoversOnlyWhatWasWrittenBeforeIt) {
  node_.disk().set_unsynced(Unsynced::kDropped);
  KINTSUGI_ASSERT_OK(make("/f", AlignedBytes(kBlock, 1), true));
  KINTSUGI_ASSERT_OK(sync_directory("/"));
  auto file = open("/f", OpenMode::kReadWrite);
  AlignedBytes late(kBlock, 2);
  runtime::TaskGroup group(simulation_.executor(), simulation_.clock());
  auto sync = [](runtime::File& f) -> asio::awaitable<void> { KINTSUGI_EXPECT_OK(co_await f.sync()); };
  auto put = [](runtime::File& f, AlignedBytes& bytes) -> asio::awaitable<void> {
    KINTSUGI_EXPECT_OK(co_await f.write(0, bytes.span()));
  };
  group.spawn(sync(*file));
  group.spawn(put(*file, late));
  simulation_.run(group.join());
  crash_and_restart();
  EXPECT_EQ(value_at("/f", 0), 1);
}

TEST_F(SimDiskTest, WhatWasTruncatedAndGrownAgainIsZeroAfterACrash) {
  node_.disk().set_unsynced(Unsynced::kDropped);
  KINTSUGI_ASSERT_OK(make("/f", AlignedBytes(4 * 64 * 1024, 1), true));
  KINTSUGI_ASSERT_OK(sync_directory("/"));
  auto file = open("/f", OpenMode::kReadWrite);
  KINTSUGI_ASSERT_OK(simulation_.run(file->truncate(kBlock)));
  KINTSUGI_ASSERT_OK(simulation_.run(file->allocate(2 * 64 * 1024)));
  KINTSUGI_ASSERT_OK(simulation_.run(file->sync()));
  crash_and_restart();
  EXPECT_EQ(value_at("/f", 0), 1);
  for (size_t block = 1; block < 32; ++block)
    ASSERT_EQ(value_at("/f", block), 0) << block;
}

TEST_F(SimDiskTest, OperationsPendingOrIssuedAfterACrashAreCancelled) {
  auto file = open("/f", OpenMode::kCreate);
  AlignedBytes bytes(64 * kBlock, 1);
  std::optional<Status> status;
  runtime::TaskGroup group(simulation_.executor(), simulation_.clock());
  auto put = [](runtime::File& f, AlignedBytes& from, std::optional<Status>& out) -> asio::awaitable<void> {
    out = co_await f.write(0, from.span());
  };
  group.spawn(put(*file, bytes, status));
  simulation_.run_for(1us);
  Disk& dead = disk();
  node_.crash();
  simulation_.run_for(0s);
  ASSERT_TRUE(status);
  EXPECT_EQ(status->code(), Code::kCancelled);
  node_.restart();
  EXPECT_EQ(simulation_.run(dead.open("/g", OpenMode::kCreate)).error().code(), Code::kCancelled);
  EXPECT_EQ(write(*file, 0, bytes).code(), Code::kCancelled);
  EXPECT_FALSE(node_.disk().exists("/g"));
  KINTSUGI_ASSERT_OK(make("/g", bytes, true));
  simulation_.run(group.join());
}

TEST_F(SimDiskTest, AFullVolumeRefusesGrowthOnly) {
  KINTSUGI_ASSERT_OK(simulation_.run(disk().make_directory("/data0")));
  node_.disk().set_capacity("/data0", 4 * kBlock);
  EXPECT_EQ(make("/data0/big", AlignedBytes(8 * kBlock, 1), false).code(), Code::kNoSpace);
  KINTSUGI_ASSERT_OK(make("/data0/fits", AlignedBytes(4 * kBlock, 1), true));
  auto space = simulation_.run(disk().space("/data0/fits"));
  EXPECT_EQ(space->free_bytes, 0u);
  EXPECT_EQ(space->total_bytes, 4 * kBlock);
  auto file = open("/data0/fits", OpenMode::kReadWrite);
  KINTSUGI_EXPECT_OK(write(*file, 0, AlignedBytes(kBlock, 2)));
  EXPECT_EQ(simulation_.run(file->allocate(5 * kBlock)).code(), Code::kNoSpace);
  KINTSUGI_ASSERT_OK(make("/elsewhere", AlignedBytes(8 * kBlock, 1), false));
  file.reset();
  KINTSUGI_ASSERT_OK(simulation_.run(disk().remove("/data0/fits")));
  KINTSUGI_ASSERT_OK(sync_directory("/data0"));
  EXPECT_EQ(simulation_.run(disk().space("/data0"))->free_bytes, 4 * kBlock);
  node_.disk().fill();
  EXPECT_EQ(make("/more", AlignedBytes(kBlock, 1), false).code(), Code::kNoSpace);
}

TEST_F(SimDiskTest, FaultsHitTheOperationsTheyWereMeantFor) {
  for (const char* directory : {"/d0", "/d1"}) {
    KINTSUGI_ASSERT_OK(simulation_.run(disk().make_directory(directory)));
  }
  node_.disk().fail_next(1, Code::kIoError, "/d0", DiskOp::kSync);
  KINTSUGI_EXPECT_OK(make("/d1/a", AlignedBytes(kBlock, 1), true));
  EXPECT_EQ(make("/d0/a", AlignedBytes(kBlock, 1), true).code(), Code::kIoError);
  KINTSUGI_EXPECT_OK(make("/d0/b", AlignedBytes(kBlock, 1), true));
  node_.disk().break_disk("/d0");
  EXPECT_EQ(simulation_.run(disk().list("/d0")).error().code(), Code::kIoError);
  KINTSUGI_EXPECT_OK(make("/d1/b", AlignedBytes(kBlock, 1), true));
  node_.disk().mend_disk("/d0");
  EXPECT_TRUE(simulation_.run(disk().list("/d0")));
}

TEST_F(SimDiskTest, AFailedSyncMakesNothingDurableAndTheNextOneDoes) {
  node_.disk().set_unsynced(Unsynced::kDropped);
  KINTSUGI_ASSERT_OK(make("/f", AlignedBytes(kBlock, 1), true));
  KINTSUGI_ASSERT_OK(sync_directory("/"));
  auto file = open("/f", OpenMode::kReadWrite);
  KINTSUGI_ASSERT_OK(write(*file, 0, AlignedBytes(kBlock, 2)));
  node_.disk().fail_next(1, Code::kIoError, "/", DiskOp::kSync);
  EXPECT_EQ(simulation_.run(file->sync()).code(), Code::kIoError);
  KINTSUGI_ASSERT_OK(simulation_.run(file->sync()));
  crash_and_restart();
  EXPECT_EQ(value_at("/f", 0), 2);
}

TEST_F(SimDiskTest, BitRotIsSeenByReadsAndSurvivesPowerCuts) {
  KINTSUGI_ASSERT_OK(make("/f", AlignedBytes(kBlock, 0), true));
  KINTSUGI_ASSERT_OK(sync_directory("/"));
  KINTSUGI_ASSERT_OK(node_.disk().flip_bit("/f", 100, 3));
  EXPECT_EQ(node_.disk().flip_bit("/f", kBlock).code(), Code::kInvalidArgument);
  EXPECT_EQ(node_.disk().flip_bit("/none", 0).code(), Code::kNotFound);
  crash_and_restart();
  auto file = open("/f", OpenMode::kRead);
  AlignedBytes into(kBlock);
  ASSERT_TRUE(simulation_.run(file->read(0, into.span())));
  EXPECT_EQ(into[100], std::byte{8});
  EXPECT_EQ(into[99], std::byte{0});
  EXPECT_EQ(write(*file, 0, into).code(), Code::kPermissionDenied);
}

TEST_F(SimDiskTest, WritingTakesTheTimeOfTheBytes) {
  node_.disk().set_speed({100'000'000, 50us, 300us});
  auto file = open("/f", OpenMode::kCreate);
  AlignedBytes bytes(10'000'000 / kBlock * kBlock, 1);
  TimePoint start = simulation_.now();
  KINTSUGI_ASSERT_OK(write(*file, 0, bytes));
  EXPECT_NEAR(std::chrono::duration<double>(simulation_.now() - start).count(), 0.1, 0.001);
  node_.disk().set_slow(10);
  start = simulation_.now();
  KINTSUGI_ASSERT_OK(write(*file, 0, bytes));
  EXPECT_NEAR(std::chrono::duration<double>(simulation_.now() - start).count(), 1.0, 0.01);
}

TEST(SimNode, WallClocksMayDisagreeWhileTimeIsOne) {
  Simulation simulation(1);
  SimNode a(simulation, "a"), b(simulation, "b");
  b.set_wall_offset(-1h);
  EXPECT_EQ(a.runtime().clock.wall_now() - b.runtime().clock.wall_now(), 1h);
  EXPECT_EQ(a.runtime().clock.now(), b.runtime().clock.now());
}

TEST(SimNode, EveryLifeOfEveryNodeHasItsOwnRandomNumbers) {
  Simulation simulation(1);
  SimNode a(simulation, "a"), b(simulation, "b");
  const uint64_t first = a.runtime().random.next();
  EXPECT_NE(first, b.runtime().random.next());
  a.crash();
  a.restart();
  EXPECT_NE(first, a.runtime().random.next());
  Simulation again(1);
  SimNode same(again, "a");
  EXPECT_EQ(first, same.runtime().random.next());
}

}  // namespace
}  // namespace kintsugi::simulation

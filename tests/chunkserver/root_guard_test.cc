// A disk's directory belongs to one process, and a disk whose directory goes away has failed.
#include "tests/chunkserver/store_rig.h"

namespace kintsugi::chunkserver {
namespace {

/// Another process on the rig's machine that is told to use the same disks.
struct SecondProcess {
  explicit SecondProcess(StoreRig& rig) : rig(rig), store(*rig.runtime, rig.options) {}
  ~SecondProcess() { rig.simulation.run(store.stop()); }
  Status start() { return rig.simulation.run(store.start()); }

  StoreRig& rig;
  ChunkStore store;
};

TEST(RootGuard, ASecondProcessOnADirectoryIsRefusedAndChangesNothing) {
  StoreRig rig(1, 2);
  rig.start();
  const auto bytes = chunk_bytes(kMiB, 1);
  auto writer = rig.simulation.run(rig.store->create(Context{}, chunk_id(1), "rs-6-3-1024k", 2 * kMiB));
  ASSERT_TRUE(writer) << writer.error();
  KINTSUGI_ASSERT_OK(rig.simulation.run(append_bytes(*rig.pool, **writer, bytes)));
  rig.simulation.run_for(1s);
  ASSERT_EQ(rig.files("/d0/tmp").size() + rig.files("/d1/tmp").size(), 1u);
  {
    // The first of its two directories is free. Nothing but the lock is made there all the same.
    rig.options.disks = {"/new", "/d1"};
    SecondProcess second(rig);
    const Status refused = second.start();
    EXPECT_EQ(refused.code(), Code::kConflict);
    EXPECT_EQ(refused.message(), "disk directory /d1 is in use by another process");
    EXPECT_EQ(rig.files("/new"), std::vector<std::string>{"lock"});
  }
  EXPECT_EQ(rig.files("/d0/tmp").size() + rig.files("/d1/tmp").size(), 1u) << "the first one writes there";
  KINTSUGI_EXPECT_OK(rig.simulation.run(append_bytes(*rig.pool, **writer, bytes)));
  auto twice = bytes;
  twice.insert(twice.end(), bytes.begin(), bytes.end());
  auto committed = rig.simulation.run((*writer)->commit(Context{}, twice.size(), crc32c(twice)));
  EXPECT_TRUE(committed) << committed.error();
  writer->reset();
}

TEST(RootGuard, AKilledProcessLetsItsDirectoryGo) {
  for (const bool power_loss : {false, true}) {
    StoreRig rig;
    rig.start();
    rig.node.crash(power_loss);
    // What is left of the killed one in this process is taken apart only afterwards.
    auto killed = std::move(rig.store);
    auto pool = std::move(rig.pool);
    auto runtime = std::move(rig.runtime);
    rig.node.restart();
    rig.start();
    rig.simulation.run(killed->stop());
    killed.reset();
    SecondProcess second(rig);
    EXPECT_EQ(second.start().code(), Code::kConflict) << "the one that was killed no longer holds the lock";
  }
}

TEST(RootGuard, AProcessThatIsOnItsWayOutIsWaitedFor) {
  StoreRig rig;
  rig.start();
  ChunkStore next(*rig.runtime, rig.options);
  std::optional<Status> started;
  asio::co_spawn(
      rig.simulation.executor(), [&]() -> asio::awaitable<void> { started = co_await next.start(); },
      asio::detached);
  rig.simulation.run_for(1s);
  EXPECT_FALSE(started);
  rig.simulation.run(rig.store->stop());
  rig.simulation.run_for(1s);
  ASSERT_TRUE(started);
  KINTSUGI_EXPECT_OK(*started);
  rig.simulation.run(next.stop());
}

/// Two disks with chunks of both kinds on each.
void fill(StoreRig& rig) {
  rig.start();
  for (uint64_t stripe = 1; stripe <= 10; ++stripe) {
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(2 * kMiB, stripe)));
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe, 1), chunk_bytes(5000, stripe)));
  }
  for (uint64_t stripe = 1; stripe <= 10; ++stripe)
    ASSERT_TRUE(rig.get(chunk_id(stripe))) << "whose file is open from here on";
}

void expect_dropped_alone(StoreRig& rig) {
  const StoreSpace space = rig.store->known_space();
  EXPECT_EQ(space.failed_disks, 1u);
  const auto lost = rig.store->take_lost();
  EXPECT_GE(lost.size(), 4u);
  EXPECT_EQ(lost.size() + rig.store->chunks(), 20u);
  for (const ChunkInfo& chunk : lost)
    EXPECT_EQ(rig.get(chunk.id).error().code(), Code::kNotFound);
  for (const ChunkInfo& chunk : rig.store->list({}, 100))
    EXPECT_TRUE(rig.get(chunk.id)) << chunk.id;
  KINTSUGI_EXPECT_OK(rig.put(chunk_id(50), chunk_bytes(2 * kMiB, 50)));
  KINTSUGI_EXPECT_OK(rig.put(chunk_id(51), chunk_bytes(500, 51)));
}

TEST(RootGuard, ADirectoryThatIsRemovedIsAFailedDiskWithinSeconds) {
  for (const char* removed : {"/d0", "/d0/chunks", "/d0/segments", "/d0/tmp"}) {
    SCOPED_TRACE(removed);
    StoreRig rig(1, 2);
    fill(rig);
    KINTSUGI_ASSERT_OK(rig.node.disk().remove_all(removed));
    rig.simulation.run_for(6s);
    expect_dropped_alone(rig);
  }
}

TEST(RootGuard, ADirectoryThatIsReplacedIsAFailedDiskWithinSeconds) {
  StoreRig rig(1, 2);
  fill(rig);
  runtime::Disk& disk = rig.runtime->disk;
  KINTSUGI_ASSERT_OK(rig.simulation.run(disk.rename("/d0", "/elsewhere")));
  for (const char* room : {"/d0/chunks", "/d0/segments", "/d0/tmp", "/d0/quarantine"})
    KINTSUGI_ASSERT_OK(rig.simulation.run(disk.make_directory(room)));
  ASSERT_TRUE(rig.simulation.run(disk.open("/d0/lock", runtime::OpenMode::kCreate)));
  rig.simulation.run_for(6s);
  expect_dropped_alone(rig);
  EXPECT_FALSE(rig.files("/elsewhere/chunks").empty());
  EXPECT_TRUE(rig.files("/d0/quarantine").empty());
}

TEST(RootGuard, WhatIsNoProofThatADirectoryWentAwayFailsNoDisk) {
  StoreRig rig(1, 2);
  fill(rig);
  rig.node.disk().fail_next(2, Code::kIoError, "/d0", simulation::DiskOp::kAttributes);
  rig.node.disk().fail_next(20, Code::kLimitExceeded, "/d0", simulation::DiskOp::kAttributes);
  // People look through quarantine and tidy up there.
  KINTSUGI_ASSERT_OK(rig.node.disk().remove_all("/d0/quarantine"));
  rig.simulation.run_for(1min);
  EXPECT_EQ(rig.store->known_space().failed_disks, 0u);
  EXPECT_TRUE(rig.store->take_lost().empty());
}

}  // namespace
}  // namespace kintsugi::chunkserver

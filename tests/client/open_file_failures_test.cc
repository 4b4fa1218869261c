// Open files whose metaserver is away, whose leases are lost, or which cannot be written: who is told, and what is kept.
#include <gtest/gtest.h>

#include "client/lib/dirty/flush_groups.h"
#include "tests/client/open_file_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::client {
namespace {

using Bytes = std::vector<std::byte>;

TEST(OpenFile, TellsAFailedWriteToEveryHandleOnceAndKeepsTheBytes) {
  OpenFileRig rig(1);
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto first = rig.open(inode), second = rig.open(inode);
  const Bytes bytes = random_bytes(50'000, 1);
  rig.cluster.meta.refuses_writes = {Code::kNoSpace, "full"};
  ASSERT_EQ(rig.write(*first, 0, bytes), Status{});
  EXPECT_EQ(rig.run(first->sync({})).code(), Code::kNoSpace);
  EXPECT_EQ(second->check().code(), Code::kNoSpace);
  EXPECT_EQ(second->check(), Status{});
  auto third = rig.open(inode);
  EXPECT_EQ(third->check(), Status{}) << "it was opened after the failure";
  EXPECT_EQ(rig.run(first->sync({})).code(), Code::kNoSpace) << "they are still not durable";
  EXPECT_TRUE(rig.read(*third, 0, bytes.size()) == bytes);
  rig.cluster.meta.refuses_writes = {};
  EXPECT_EQ(rig.run(second->sync({})), Status{});
  EXPECT_EQ(rig.cluster.meta.inodes[inode].attributes.size(), bytes.size());
  for (auto* handle : {&first, &second, &third})
    rig.close(*handle);
}

TEST(OpenFile, GivesFailedBytesUpWithItsLastHandle) {
  OpenFileRig rig(2);
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  rig.cluster.meta.refuses_writes = {Code::kQuota, "too much"};
  ASSERT_EQ(rig.write(*handle, 0, random_bytes(50'000, 1)), Status{});
  EXPECT_EQ(rig.run(handle->close({}, true)).code(), Code::kQuota);
  handle.reset();
  EXPECT_EQ(rig.files->counts().dirty_memory, 0u);
  EXPECT_FALSE(rig.files->find(inode));
}

TEST(OpenFile, OfAnInodeThatIsGoneSaysSoAndFreesItsMemory) {
  OpenFileRig rig(3);
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  ASSERT_EQ(rig.write(*handle, 0, random_bytes(50'000, 1)), Status{});
  rig.cluster.meta.inodes.erase(inode);
  EXPECT_EQ(rig.run(handle->sync({})).code(), Code::kStale);
  EXPECT_EQ(rig.files->counts().dirty_memory, 0u);
  EXPECT_EQ(rig.write(*handle, 0, random_bytes(1, 1)).code(), Code::kStale);
  rig.close(handle);
}

TEST(OpenFile, WhoseLeaseWasLostLosesWhatWasNotWrittenOutAndGoesOnToWork) {
  OpenFileRig rig(4);
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  ASSERT_EQ(rig.write(*handle, 0, random_bytes(50'000, 1)), Status{});
  rig.cluster.meta.refuses_writes = {Code::kLeaseLost, "was given to others, since this client was silent"};
  EXPECT_EQ(rig.run(handle->sync({})).code(), Code::kLeaseLost);
  EXPECT_EQ(rig.files->counts().dirty_memory, 0u);
  rig.cluster.meta.refuses_writes = {};
  KINTSUGI_EXPECT_OK(rig.write(*handle, 0, random_bytes(1000, 2)));
  KINTSUGI_EXPECT_OK(rig.run(handle->sync({})));
  EXPECT_EQ(rig.cluster.meta.inodes[inode].attributes.size(), 1000u);
  rig.close(handle);
}

TEST(OpenFile, TellsAtOnceThatItKnowsOfALostLeaseAndWritesNothingBefore) {
  for (const size_t size : {1000u, 2'000'000u}) {
    OpenFileRig rig(4);
    FakeMetaServer& meta = rig.cluster.meta;
    const uint64_t inode = meta.add_inode();
    auto handle = rig.open(inode);
    ASSERT_EQ(rig.write(*handle, 0, random_bytes(size, 1)), Status{});
    meta.refuses_writes = {Code::kLeaseLost, "was given to others, since this client was silent"};
    EXPECT_EQ(rig.run(handle->sync({})).code(), Code::kLeaseLost);
    meta.refuses_writes = {};
    KINTSUGI_EXPECT_OK(rig.write(*handle, 0, random_bytes(size, 2)));
    KINTSUGI_EXPECT_OK(rig.run(handle->sync({})));
    EXPECT_TRUE(meta.given_back.contains(inode)) << "the metaserver refuses everything until it is told, and "
                                                    "that comes when the session says something next";
    rig.close(handle);
  }
}

TEST(OpenFile, WhoseBytesAreRefusedLeavesNoUploadToTheMetaserver) {
  for (const size_t size : {50'000u, 2'000'000u}) {
    OpenFileRig rig(4);
    const uint64_t inode = rig.cluster.meta.add_inode();
    auto handle = rig.open(inode);
    ASSERT_EQ(rig.write(*handle, 0, random_bytes(size, 1)), Status{});
    rig.cluster.meta.refuses_writes = {Code::kQuota, "too much"};
    EXPECT_EQ(rig.run(handle->sync({})).code(), Code::kQuota);
    EXPECT_EQ(rig.cluster.meta.aborts, 1) << size;
    rig.cluster.meta.refuses_writes = {};
    KINTSUGI_EXPECT_OK(rig.run(handle->sync({})));
    rig.close(handle);
  }
}

TEST(OpenFile, ThatWasRemovedAndClosedIsNoLossAndOneThatIsOpenIs) {
  for (const bool open : {false, true}) {
    OpenFileRig rig(16);
    const uint64_t inode = rig.cluster.meta.add_inode();
    auto handle = rig.open(inode);
    ASSERT_EQ(rig.write(*handle, 0, random_bytes(50'000, 1)), Status{});
    rig.cluster.meta.inodes.erase(inode);
    if (!open) {
      (void)rig.run(handle->close({}));
      handle.reset();
    }
    EXPECT_EQ(rig.run(rig.files->sync_all({})).code(), open ? Code::kStale : Code::kOk);
    EXPECT_EQ(rig.files->counts().dirty_memory, 0u);
    if (open) rig.close(handle);
  }
}

TEST(OpenFile, WhoseLeaseWasLostIsALossAlsoIfItWasClosed) {
  OpenFileRig rig(16);
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  ASSERT_EQ(rig.write(*handle, 0, random_bytes(50'000, 1)), Status{});
  rig.cluster.meta.refuses_writes = {Code::kLeaseLost, "was given to others, since this client was silent"};
  (void)rig.run(handle->close({}));
  handle.reset();
  EXPECT_EQ(rig.run(rig.files->sync_all({})).code(), Code::kLeaseLost);
  EXPECT_EQ(rig.files->counts().dirty_memory, 0u);
}

TEST(OpenFile, GivesALostLeaseBackOnceNothingIsUnderWayAndKeepsTheOneThatItIsGrantedAnew) {
  OpenFileRig rig(17);
  FakeMetaServer& meta = rig.cluster.meta;
  meta.grants_leases = true;
  const uint64_t inode = meta.add_inode();
  const auto open = [&] {
    auto opened = rig.run(rig.files->open({}, inode, /*for_writing=*/true));
    KINTSUGI_ASSERT(opened);
    return std::move(*opened);
  };
  Session& session = rig.files->session();
  auto first = open();
  ASSERT_TRUE(session.has_lease(inode));
  ASSERT_EQ(rig.write(*first, 0, random_bytes(50'000, 1)), Status{});
  // Others want to see the file; what was kept back of it is answered late.
  meta.answers_after[rpc::Method::kWriteExtents] = 3s;
  rig.files->give_back(inode);
  rig.cluster.simulation.run_for(1s);
  meta.lost_leases = {inode};
  KINTSUGI_ASSERT_OK(rig.run(session.tell({})));
  meta.lost_leases.clear();
  KINTSUGI_ASSERT_OK(rig.run(session.tell({})));
  EXPECT_FALSE(meta.given_back.contains(inode)) << "the metaserver would take what may still be on its way";
  rig.cluster.simulation.run_for(3s);
  EXPECT_TRUE(meta.given_back.contains(inode));
  auto second = open();
  ASSERT_TRUE(session.has_lease(inode));
  meta.given_back.clear();
  KINTSUGI_EXPECT_OK(rig.write(*second, 0, random_bytes(1000, 2)));
  rig.cluster.simulation.run_for(4s);
  EXPECT_TRUE(session.has_lease(inode));
  EXPECT_FALSE(meta.given_back.contains(inode)) << "others may write, and what is kept back goes over that";
  rig.close(first);
  rig.close(second);
}

TEST(OpenFile, WaitsWhileAMetaserverDoesNotAnswer) {
  OpenFileRig rig(4);
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  const Bytes bytes = random_bytes(300'000, 1);
  ASSERT_EQ(rig.write(*handle, 7, bytes), Status{});
  rig.cluster.meta.refuses_writes = {Code::kUnavailable, "starting"};
  std::optional<Status> synced;
  const auto sync = [&]() -> asio::awaitable<void> { synced = co_await handle->sync({}); };
  asio::co_spawn(rig.cluster.simulation.executor(), sync(), asio::detached);
  rig.cluster.simulation.run_for(std::chrono::minutes(5));
  EXPECT_FALSE(synced);
  rig.cluster.meta.refuses_writes = {};
  rig.cluster.simulation.run_for(std::chrono::seconds(30));
  ASSERT_TRUE(synced);
  EXPECT_EQ(*synced, Status{});
  rig.close(handle);
}

TEST(OpenFile, FailsAfterTheIoTimeout) {
  OpenFileRig rig(5, {.io_timeout = std::chrono::seconds(60)});
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  ASSERT_EQ(rig.write(*handle, 7, random_bytes(100, 1)), Status{});
  rig.cluster.meta.refuses_writes = {Code::kUnavailable, "starting"};
  const TimePoint began = rig.cluster.simulation.now();
  EXPECT_EQ(rig.run(handle->sync({})).code(), Code::kUnavailable);
  EXPECT_GE(rig.cluster.simulation.now() - began, std::chrono::seconds(55));
  EXPECT_LE(rig.cluster.simulation.now() - began, std::chrono::seconds(150));
  rig.cluster.meta.refuses_writes = {};
  EXPECT_EQ(rig.run(handle->sync({})), Status{});
  rig.close(handle);
}

TEST(OpenFile, ChangesThatAreRepeatedAreCarriedOutOnce) {
  OpenFileRig rig(6);
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  ASSERT_EQ(rig.write(*handle, 0, random_bytes(100, 1)), Status{});
  rig.cluster.meta.lose_answers = 1;
  EXPECT_EQ(rig.run(handle->sync({})), Status{});
  EXPECT_EQ(rig.cluster.meta.extent_writes.size(), 1u);
  rig.close(handle);
}

}  // namespace
}  // namespace kintsugi::client

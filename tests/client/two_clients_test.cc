// Two clients that have one file open without a lease: what one has synced is there for the other, whatever that one does next.
#include <gtest/gtest.h>

#include "client/lib/files/open_files.h"
#include "tests/client/fake_cluster.h"
#include "tests/expect_ok.h"

namespace kintsugi::client {
namespace {

using Bytes = std::vector<std::byte>;

struct TwoClients {
  struct User {
    std::unique_ptr<OpenFiles> files;
    std::unique_ptr<OpenHandle> handle;
  };

  explicit TwoClients(uint64_t seed, FilesOptions options = {}) : cluster(seed) {
    inode = cluster.meta.add_inode();
    for (User* user : {&here, &other}) {
      user->files = cluster.open_files(options);
      auto opened = cluster.run(user->files->open({}, inode));
      KINTSUGI_ASSERT(opened);
      user->handle = std::move(*opened);
    }
  }
  ~TwoClients() {
    for (User* user : {&here, &other}) {
      (void)cluster.run(user->handle->close({}, true));
      user->handle.reset();
      (void)cluster.run(user->files->stop());
      user->files.reset();
    }
  }

  OpenFile& file() { return here.handle->file(); }
  void write(User& user, uint64_t offset, const Bytes& bytes) {
    KINTSUGI_EXPECT_OK(cluster.run(user.handle->file().write({}, offset, bytes)));
    KINTSUGI_EXPECT_OK(cluster.run(user.handle->sync({})));
  }
  Bytes read(uint64_t offset, uint64_t length) {
    Bytes bytes(length);
    const auto read = cluster.run(file().read({}, offset, bytes));
    EXPECT_TRUE(read) << read.error();
    bytes.resize(read ? *read : 0);
    return bytes;
  }

  FakeCluster cluster;
  uint64_t inode = 0;
  User here, other;
};

constexpr uint64_t kSmall = 100, kLarge = 1'000'100;
const Bytes kOld(kSmall, std::byte{'o'}), kNew(kLarge - kSmall, std::byte{'n'});

TEST(TwoClients, AnAllocationDoesNotCutWhatTheOtherWrote) {
  TwoClients rig(41);
  rig.write(rig.here, 0, kOld);
  rig.write(rig.other, kSmall, kNew);
  KINTSUGI_EXPECT_OK(rig.cluster.run(rig.file().allocate({}, {}, 0, 4096)));
  EXPECT_EQ(rig.cluster.meta.inodes.at(rig.inode).attributes.size(), kLarge);
  EXPECT_EQ(rig.file().size(), kLarge);
  KINTSUGI_EXPECT_OK(rig.cluster.run(rig.file().allocate({}, {}, 0, kLarge + 1)));
  EXPECT_EQ(rig.cluster.meta.inodes.at(rig.inode).attributes.size(), kLarge + 1);
}

TEST(TwoClients, AHoleIsPunchedWhereOnlyTheOtherWrote) {
  TwoClients rig(42);
  rig.write(rig.here, 0, kOld);
  rig.write(rig.other, kSmall, kNew);
  const AllocateMode punch{.keep_size = true, .punch_hole = true};
  KINTSUGI_EXPECT_OK(rig.cluster.run(rig.file().allocate({}, punch, 1000, 1000)));
  EXPECT_EQ(rig.read(999, 2), (Bytes{std::byte{'n'}, std::byte{}}));
}

TEST(TwoClients, WhatTheOtherWroteIsFoundAndCopied) {
  TwoClients rig(43);
  rig.write(rig.here, 0, kOld);
  rig.write(rig.other, kSmall, kNew);
  const auto found = rig.cluster.run(rig.file().seek_hole({}, 500));
  ASSERT_TRUE(found) << found.error();
  EXPECT_EQ(*found, kLarge) << "data to the end";
  const uint64_t target = rig.cluster.meta.add_inode();
  auto to = rig.cluster.run(rig.here.files->open({}, target));
  ASSERT_TRUE(to);
  const auto copied = rig.cluster.run((*to)->file().copy_range({}, rig.file(), 0, 0, kLarge));
  EXPECT_EQ(copied ? *copied : 0, kLarge);
  KINTSUGI_EXPECT_OK(rig.cluster.run((*to)->close({}, true)));
}

TEST(TwoClients, AnAppendIsBehindWhatTheOtherAppended) {
  TwoClients rig(44);
  rig.write(rig.here, 0, kOld);
  rig.write(rig.other, kSmall, kNew);
  const auto at = rig.cluster.run(rig.file().append({}, kOld));
  EXPECT_EQ(at ? *at : 0, kLarge);
}

TEST(TwoClients, AReadSeesASecondLaterWhatTheOtherSynced) {
  TwoClients rig(45);
  rig.write(rig.here, 0, kOld);
  EXPECT_EQ(rig.read(0, kLarge), kOld);
  rig.write(rig.other, 0, kNew);
  rig.cluster.simulation.run_for(1100ms);
  EXPECT_TRUE(rig.read(0, kLarge) == kNew);
}

TEST(TwoClients, AWriteDoesNotHideWhatTheOtherWroteBefore) {
  TwoClients rig(46);
  Bytes bytes(3000, std::byte{'o'});
  rig.write(rig.here, 0, bytes);
  EXPECT_EQ(rig.read(0, 3000), bytes);
  rig.write(rig.other, 0, Bytes(1000, std::byte{'n'}));
  // The answer to this write has attributes that include the other one.
  rig.write(rig.here, 2000, Bytes(1000, std::byte{'h'}));
  std::fill_n(bytes.begin(), 1000, std::byte{'n'});
  std::fill_n(bytes.begin() + 2000, 1000, std::byte{'h'});
  rig.cluster.simulation.run_for(3s);
  EXPECT_TRUE(rig.read(0, 3000) == bytes);
}

TEST(TwoClients, ReadsDoNotWaitForAMetaserverThatIsAway) {
  TwoClients rig(47);
  rig.write(rig.here, 0, kOld);
  EXPECT_EQ(rig.read(0, kSmall), kOld);
  rig.cluster.simulation.run_for(5s);
  rig.cluster.meta.answers_after[rpc::Method::kGetInode] = 60s;
  const TimePoint before = rig.cluster.simulation.now();
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(rig.read(0, kSmall), kOld);
  EXPECT_LT(rig.cluster.simulation.now() - before, 2s);
  rig.cluster.meta.answers_after.clear();
}

}  // namespace
}  // namespace kintsugi::client

// Two clients that have one file open without a lease: what one has synced is there for the other, whatever that one does next.
#include <gtest/gtest.h>

#include "client/lib/files/open_files.h"
#include "common/runtime/task_group.h"
#include "tests/client/open_file_rig.h"
#include "tests/expect_ok.h"
#include "tests/test_seeds.h"

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

constexpr Duration kSeenAfter = 1100ms;
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
  rig.cluster.simulation.run_for(kSeenAfter);
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

TEST(TwoClients, AReaderBesideAWriterOfTheSameProcessGetsOn) {
  TwoClients rig(48, {.known_extents = 4});
  constexpr uint64_t kPieces = 12, kPiece = 4096;
  for (uint64_t i = 0; i < kPieces; ++i)
    rig.write(rig.here, i * kPiece, Bytes(kPiece, std::byte('a' + i)));
  bool stopped = false;
  const auto write_on = [&]() -> asio::awaitable<void> {
    while (!stopped) {
      KINTSUGI_EXPECT_OK(co_await rig.file().write({}, kPieces * kPiece, kOld));
      KINTSUGI_EXPECT_OK(co_await rig.here.handle->sync({}));
    }
  };
  runtime::TaskGroup writer(rig.cluster.simulation.executor(), rig.cluster.simulation.clock());
  writer.spawn(write_on());
  const TimePoint before = rig.cluster.simulation.now();
  for (int i = 0; i < 20; ++i) {
    const Bytes found = rig.read(0, kPieces * kPiece);
    ASSERT_EQ(found.size(), kPieces * kPiece);
    for (uint64_t piece = 0; piece < kPieces; ++piece)
      ASSERT_EQ(found[piece * kPiece], std::byte('a' + piece));
  }
  EXPECT_LT(rig.cluster.simulation.now() - before, 5s);
  stopped = true;
  rig.cluster.run(writer.join());
}

/// What one of the two does to the file, and to the model. Whatever it changes is synced before the next step.
struct Steps {
  static constexpr uint64_t kMost = 600'000;  ///< offsets are below that

  void any(OpenFile& file, OpenHandle& handle) {
    const uint64_t offset = random.below(3) == 0 ? random.below(kMost) : random.below(model.size() + 1000);
    const uint64_t length = 1 + random.below(random.below(4) == 0 ? 200'000 : 9000);
    const uint64_t end = offset + length;
    const AllocateMode hole{.keep_size = random.below(2) == 0, .punch_hole = false, .zero_range = true};
    switch (random.below(8)) {
      case 0:
        KINTSUGI_EXPECT_OK(cluster.run(file.truncate({}, offset)));
        model.resize(offset);
        break;
      case 1: {
        const auto at = cluster.run(file.append({}, filled(length)));
        EXPECT_EQ(at ? *at : 0, model.size());
        put(model.size(), length);
        break;
      }
      case 2:
        KINTSUGI_EXPECT_OK(cluster.run(file.allocate({}, {}, offset, length)));
        model.resize(std::max<size_t>(model.size(), end));
        break;
      case 3:
        KINTSUGI_EXPECT_OK(cluster.run(file.allocate({}, hole, offset, length)));
        if (!hole.keep_size) model.resize(std::max<size_t>(model.size(), end));
        for (uint64_t i = offset; i < std::min<uint64_t>(end, model.size()); ++i)
          model[i] = std::byte{};
        break;
      default:
        KINTSUGI_EXPECT_OK(cluster.run(file.write({}, offset, filled(length))));
        model.resize(std::max<size_t>(model.size(), offset));
        put(offset, length);
    }
    KINTSUGI_EXPECT_OK(cluster.run(handle.sync({})));
  }
  Bytes filled(uint64_t length) { return Bytes(length, std::byte(++letter == 0 ? ++letter : letter)); }
  void put(uint64_t offset, uint64_t length) {
    model.resize(std::max<size_t>(model.size(), offset + length));
    std::fill_n(model.begin() + static_cast<ptrdiff_t>(offset), length, std::byte(letter));
  }

  FakeCluster& cluster;
  simulation::SimRandom& random;
  Bytes model{};
  uint8_t letter = 0;
};

TEST(TwoClients, HaveTheFileThatTheModelHasWhoeverDidWhat) {
  const TestSeeds seeds(8);
  for (uint64_t seed = seeds.first(); seed < seeds.end(); ++seed) {
    SCOPED_TRACE(TestSeeds::replay(seed));
    FilesOptions options;
    if (seed % 3 == 0) options.known_extents = 3;
    TwoClients rig(seed, options);
    rig.cluster.meta.keeps_inline = seed % 2 == 0;
    auto& random = rig.cluster.simulation.random();
    Steps steps{rig.cluster, random};
    for (int step = 0; step < 80; ++step) {
      TwoClients::User& user = random.below(2) == 0 ? rig.here : rig.other;
      steps.any(user.handle->file(), *user.handle);
      if (random.below(3) != 0) continue;
      rig.cluster.simulation.run_for(kSeenAfter);
      ASSERT_EQ(difference(rig.read(0, steps.model.size() + 1000), steps.model), "") << "step " << step;
    }
  }
}

}  // namespace
}  // namespace kintsugi::client

// Open files against a model, and what their users are promised: read your writes, few calls, bounds on memory.
#include <gtest/gtest.h>

#include "client/lib/dirty/dirty_buffers.h"
#include "client/lib/dirty/flush_groups.h"
#include "tests/client/open_file_rig.h"
#include "tests/expect_ok.h"
#include "tests/test_seeds.h"

namespace kintsugi::client {
namespace {

using Bytes = std::vector<std::byte>;

TEST(OpenFile, IsWhatTheModelSaysAfterAnyOperations) {
  const TestSeeds seeds(12);
  for (uint64_t seed = seeds.first(); seed < seeds.end(); ++seed) {
    SCOPED_TRACE(TestSeeds::replay(seed));
    // Little memory, so that writers wait and files are written out in many ways.
    FilesOptions options{.dirty_bytes = seed % 3 == 0 ? size_t{1} << 20 : size_t{8} << 20};
    if (seed % 4 == 0) options.read_ahead_bytes = 0;
    if (seed % 5 == 0) options.known_extents = 3;
    OpenFileRig rig(seed, options);
    rig.cluster.meta.keeps_inline = seed % 2 == 0;
    auto& random = rig.cluster.simulation.random();
    const uint64_t inode = rig.cluster.meta.add_inode();
    auto handle = rig.open(inode);
    Bytes model;
    constexpr uint64_t kMost = 3'000'000;  // offsets are below that
    for (int step = 0; step < 250; ++step) {
      const uint64_t offset = random.below(3) == 0 ? random.below(kMost) : random.below(model.size() + 5000);
      const uint64_t length = 1 + random.below(random.below(4) == 0 ? 700'000 : 20'000);
      switch (random.below(20)) {
        case 0: {
          const uint64_t size = random.below(kMost);
          ASSERT_EQ(rig.run(handle->file().truncate({}, size)), Status{});
          model.resize(size);
          break;
        }
        case 1: {
          const bool punch = random.below(2) == 0;
          ASSERT_EQ(rig.run(handle->file().allocate(
                        {}, {.keep_size = true, .punch_hole = punch, .zero_range = !punch}, offset, length)),
                    Status{});
          for (uint64_t i = offset; i < std::min<uint64_t>(offset + length, model.size()); ++i)
            model[i] = std::byte{};
          break;
        }
        case 2: {
          ASSERT_EQ(rig.run(handle->sync({})), Status{});
          break;
        }
        case 3: {
          rig.cluster.simulation.run_for(std::chrono::milliseconds(random.below(3000)));
          break;
        }
        case 4: {
          if (model.empty()) break;
          const uint64_t from = random.below(model.size());
          const auto copied = rig.run(handle->file().copy_range({}, handle->file(), from, offset, length));
          ASSERT_TRUE(copied) << copied.error();
          const Bytes bytes = part(model, from, length);
          ASSERT_EQ(*copied, bytes.size());
          model.resize(std::max<uint64_t>(model.size(), offset + bytes.size()));
          std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
          break;
        }
        case 5:
        case 6:
        case 7:
        case 8:
        case 9: {
          ASSERT_EQ(difference(rig.read(*handle, offset, length), part(model, offset, length)), "")
              << "step " << step;
          break;
        }
        default: {
          const Bytes bytes = random_bytes(length, random.next());
          ASSERT_EQ(rig.write(*handle, offset, bytes), Status{});
          model.resize(std::max<uint64_t>(model.size(), offset + length));
          std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
        }
      }
      ASSERT_EQ(handle->file().size(), model.size());
    }
    EXPECT_EQ(difference(rig.read(*handle, 0, 2 * kMost), model), "");
    ASSERT_EQ(rig.run(handle->sync({})), Status{});
    EXPECT_EQ(rig.cluster.meta.inodes[inode].attributes.size(), model.size());
    // Another process sees the same.
    auto others = rig.cluster.open_files();
    auto other = rig.run(others->open({}, inode));
    ASSERT_TRUE(other);
    Bytes seen(2 * kMost);
    const auto read = rig.run((*other)->file().read({}, 0, seen));
    ASSERT_TRUE(read) << read.error();
    seen.resize(*read);
    EXPECT_EQ(difference(seen, model), "");
    (void)rig.run((*other)->close({}));
    other->reset();
    (void)rig.run(others->stop());
    rig.close(handle);
  }
}

TEST(OpenFile, PacksScatteredWritesIntoOneStripe) {
  OpenFileRig rig(7);
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  // 100 blocks of 4 KiB: more than a cell of 64 KiB, less than a stripe.
  for (uint64_t i = 0; i < 100; ++i)
    ASSERT_EQ(rig.write(*handle, i * 64 * 1024, random_bytes(4096, i)), Status{});
  ASSERT_EQ(rig.run(handle->sync({})), Status{});
  EXPECT_EQ(rig.cluster.meta.stripes.size(), 1u);
  EXPECT_EQ(rig.cluster.meta.inodes[inode].extents.size(), 100u);
  // A block alone goes to copies.
  ASSERT_EQ(rig.write(*handle, 0, random_bytes(4096, 1000)), Status{});
  ASSERT_EQ(rig.run(handle->sync({})), Status{});
  ASSERT_EQ(rig.cluster.meta.stripes.size(), 2u);
  EXPECT_TRUE(rig.cluster.meta.stripes.rbegin()->second.policy().starts_with("replication"))
      << rig.cluster.meta.stripes.rbegin()->second.policy();
  // Reading all of it takes a window for a block of the stripe, not one for each extent.
  const auto before = rig.files->counts();
  const Bytes all = rig.read(*handle, 0, 100 * 64 * 1024);
  EXPECT_EQ(all.size(), 99 * 64 * 1024 + 4096u);
  EXPECT_LE(rig.files->counts().windows_read - before.windows_read, 20u);
  rig.close(handle);
}

TEST(OpenFile, FewBytesThatSomebodyWaitsForGoToTheMetaserverAlone) {
  OpenFileRig rig(7);
  rig.cluster.meta.keeps_inline = true;
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  Bytes model = random_bytes(100'000, 1);
  ASSERT_EQ(rig.write(*handle, 0, model), Status{});
  ASSERT_EQ(rig.run(handle->sync({})), Status{});
  EXPECT_EQ(rig.files->counts().stripes_written, 1u) << "that is too much for the metaserver";
  for (const uint64_t offset : {4096u, 40'000u}) {
    const Bytes bytes = random_bytes(4096, offset);
    ASSERT_EQ(rig.write(*handle, offset, bytes), Status{});
    std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
  }
  ASSERT_EQ(rig.run(handle->sync({})), Status{});
  EXPECT_EQ(rig.files->counts().stripes_written, 1u);
  EXPECT_TRUE(rig.read(*handle, 0, model.size()) == model);
  // Bytes that the metaserver keeps need no chunkserver.
  for (const auto& server : rig.cluster.servers)
    server->node.crash();
  EXPECT_TRUE(rig.read(*handle, 40'000, 4096) == part(model, 40'000, 4096));
  rig.close(handle);
}

TEST(OpenFile, AMetaserverThatKeepsNoBytesIsNotAskedEachTime) {
  OpenFileRig rig(7);
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(rig.write(*handle, 0, random_bytes(4096, 1)), Status{});
    ASSERT_EQ(rig.run(handle->sync({})), Status{});
  }
  EXPECT_EQ(rig.files->counts().stripes_written, 5u);
  EXPECT_EQ(rig.cluster.meta.inline_refused, 1u);
  rig.cluster.meta.keeps_inline = true;
  rig.cluster.simulation.run_for(FlushGroups::kAllToStripes);
  ASSERT_EQ(rig.write(*handle, 0, random_bytes(4096, 1)), Status{});
  ASSERT_EQ(rig.run(handle->sync({})), Status{});
  EXPECT_EQ(rig.files->counts().stripes_written, 5u);
  rig.close(handle);
}

TEST(OpenFile, SequentialBytesOfAStripeAreOneExtent) {
  OpenFileRig rig(8, {.dirty_bytes = 3 << 20});
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  // A stripe of this cluster holds 3 x 256 KiB: a quarter of the memory.
  const Bytes bytes = random_bytes(6 * 3 * 256 * 1024, 1);
  for (uint64_t at = 0; at < bytes.size(); at += 128 * 1024)
    ASSERT_EQ(rig.write(*handle, at, std::span(bytes).subspan(at, 128 * 1024)), Status{});
  EXPECT_LE(rig.files->counts().dirty_memory, 3u << 20);
  ASSERT_EQ(rig.run(handle->sync({})), Status{});
  EXPECT_LE(rig.cluster.meta.inodes[inode].extents.size(), 8u);
  EXPECT_TRUE(rig.read(*handle, 0, bytes.size()) == bytes);
  rig.close(handle);
}

TEST(OpenFile, IsWrittenOutAfterAWhileWithoutSync) {
  OpenFileRig rig(9);
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  ASSERT_EQ(rig.write(*handle, 0, random_bytes(10, 1)), Status{});
  EXPECT_EQ(rig.cluster.meta.extent_writes.size(), 0u);
  rig.cluster.simulation.run_for(std::chrono::seconds(4));
  EXPECT_EQ(rig.cluster.meta.extent_writes.size(), 1u);
  EXPECT_EQ(rig.files->counts().dirty_memory, 0u);
  rig.close(handle);
}

TEST(OpenFile, ManyFilesShareTheMemory) {
  OpenFileRig rig(10, {.dirty_bytes = 1 << 20});
  std::vector<std::unique_ptr<OpenHandle>> handles;
  for (int i = 0; i < 200; ++i) {
    handles.push_back(rig.open(rig.cluster.meta.add_inode()));
    ASSERT_EQ(rig.write(*handles.back(), 0, random_bytes(4096, i)), Status{});
    EXPECT_LE(rig.files->counts().dirty_memory, 1u << 20);
  }
  for (int i = 0; i < 200; ++i)
    EXPECT_TRUE(rig.read(*handles[i], 0, 5000) == random_bytes(4096, i)) << i;
  for (auto& handle : handles)
    rig.close(handle);
}

TEST(OpenFile, KnowsItsHolesAndData) {
  OpenFileRig rig(11);
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  constexpr uint64_t kMiB = 1 << 20;
  ASSERT_EQ(rig.write(*handle, 10 * kMiB, random_bytes(kMiB, 1)), Status{});
  for (const bool synced : {false, true}) {
    SCOPED_TRACE(synced);
    if (synced) ASSERT_EQ(rig.run(handle->sync({})), Status{});
    if (synced) ASSERT_EQ(rig.write(*handle, 20 * kMiB, random_bytes(100, 1)), Status{});
    EXPECT_EQ(*rig.run(handle->file().seek_data({}, 0)), 10 * kMiB);
    EXPECT_EQ(*rig.run(handle->file().seek_data({}, 10 * kMiB + 5)), 10 * kMiB + 5);
    EXPECT_EQ(*rig.run(handle->file().seek_hole({}, 0)), 0u);
    EXPECT_EQ(*rig.run(handle->file().seek_hole({}, 10 * kMiB)), 11 * kMiB);
  }
  EXPECT_EQ(*rig.run(handle->file().seek_data({}, 11 * kMiB)), 20 * kMiB);
  EXPECT_EQ(*rig.run(handle->file().seek_hole({}, 20 * kMiB)), 20 * kMiB + 100);
  EXPECT_EQ(rig.run(handle->file().seek_data({}, 20 * kMiB + 100)).error().code(), Code::kRange);
  ASSERT_EQ(rig.run(handle->file().truncate({}, 30 * kMiB)), Status{});
  EXPECT_EQ(rig.run(handle->file().seek_data({}, 21 * kMiB)).error().code(), Code::kNoData);
  rig.close(handle);
}

TEST(OpenFile, HasTheTimeAndTheModeThatFollowFromUnwrittenBytes) {
  OpenFileRig rig(12);
  const uint64_t inode = rig.cluster.meta.add_inode();
  rig.cluster.meta.inodes[inode].attributes.set_mode(06755);
  auto handle = rig.open(inode);
  ASSERT_EQ(rig.run(handle->file().write({}, 0, random_bytes(10, 1), true)), Status{});
  const int64_t written = handle->file().attributes().modified_ns();
  EXPECT_GT(written, 0);
  EXPECT_EQ(handle->file().attributes().mode(), 0755u);
  ASSERT_EQ(rig.run(handle->sync({})), Status{});
  EXPECT_EQ(rig.cluster.meta.inodes[inode].attributes.mode(), 0755u);
  EXPECT_EQ(rig.cluster.meta.inodes[inode].attributes.modified_ns(), written);
  // A time that was set is not overwritten by what was written before.
  ASSERT_EQ(rig.write(*handle, 0, random_bytes(10, 1)), Status{});
  proto::SetAttributesRequest request;
  request.set_modified_ns(77);
  const size_t writes = rig.cluster.meta.extent_writes.size();
  const auto changed = rig.run(handle->file().set_attributes({}, request));
  ASSERT_TRUE(changed);
  EXPECT_EQ(rig.cluster.meta.extent_writes.size(), writes) << "nor is that a reason to write anything out";
  EXPECT_EQ(changed->modified_ns(), 77);
  ASSERT_EQ(rig.run(handle->sync({})), Status{});
  EXPECT_EQ(rig.cluster.meta.inodes[inode].attributes.modified_ns(), 77);
  rig.close(handle);
}

TEST(OpenFile, ReadsAroundLostServersAndFindsChunksThatMoved) {
  OpenFileRig rig(13);
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  const Bytes bytes = random_bytes(2'000'000, 1);
  ASSERT_EQ(rig.write(*handle, 0, bytes), Status{});
  ASSERT_EQ(rig.run(handle->sync({})), Status{});
  ASSERT_TRUE(rig.read(*handle, 0, bytes.size()) == bytes);
  rig.cluster.kill(0);
  rig.cluster.kill(1);
  for (uint64_t at = 0; at < bytes.size(); at += 111'111)
    ASSERT_TRUE(rig.read(*handle, at, 5000) == part(bytes, at, 5000)) << at;
  ASSERT_TRUE(rig.read(*handle, 0, bytes.size()) == bytes);
  rig.close(handle);
}

TEST(OpenFile, WhoseEndIsReadAroundALostServerLeavesTheMemoryToOthers) {
  constexpr uint64_t kCell = 64 * 1024, kBegin = 2 * kCell;
  // The client has memory for 64 buffers. What is read ahead of each file is one chunk, and at times takes five to decode.
  OpenFileRig rig(18);
  const Bytes bytes = random_bytes(kBegin + kCell, 1);
  std::vector<std::unique_ptr<OpenHandle>> handles;
  for (int file = 0; file < 50; ++file) {
    handles.push_back(rig.open(rig.cluster.meta.add_inode()));
    ASSERT_EQ(rig.write(*handles.back(), 0, bytes), Status{});
    ASSERT_EQ(rig.run(handles.back()->sync({})), Status{});
  }
  rig.cluster.kill(0);
  rig.cluster.kill(1);
  const TimePoint began = rig.cluster.simulation.now();
  for (const auto& handle : handles) {
    ASSERT_TRUE(rig.read(*handle, 0, kBegin) == part(bytes, 0, kBegin));
    ASSERT_TRUE(rig.read(*handle, kBegin, kCell) == part(bytes, kBegin, kCell));
  }
  EXPECT_LT(rig.cluster.simulation.now() - began, 4s)
      << "some waited until what was read ahead of others was dropped";
  for (auto& handle : handles)
    rig.close(handle);
}

TEST(OpenFile, SeesWhatOthersWroteWhenToldSo) {
  OpenFileRig rig(14);
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto others = rig.cluster.open_files();
  auto other = rig.run(others->open({}, inode));
  auto handle = rig.open(inode);
  for (uint64_t round = 0; round < 3; ++round) {
    const Bytes bytes = random_bytes(100'000 + round, round);
    ASSERT_EQ(rig.write(*handle, 0, bytes), Status{});
    ASSERT_EQ(rig.run(handle->sync({})), Status{});
    ASSERT_TRUE(rig.run((*other)->file().refresh({})));
    Bytes seen(bytes.size() + 10);
    const auto read = rig.run((*other)->file().read({}, 0, seen));
    ASSERT_TRUE(read);
    seen.resize(*read);
    EXPECT_TRUE(seen == bytes) << round;
  }
  (void)rig.run((*other)->close({}));
  other->reset();
  (void)rig.run(others->stop());
  rig.close(handle);
}

TEST(OpenFile, AProcessThatTakesOverHasWhatWasNotWrittenOut) {
  // The memory of a process that was killed, and of the next one.
  class Lasting : public DirtyMemory {
   public:
    explicit Lasting(std::span<std::byte> region) : region_(region) {}
    std::span<std::byte> region() override { return region_; }

   private:
    std::span<std::byte> region_;
  };
  ProcessDirtyMemory memory(DirtyBuffers::region_bytes(4 << 20));
  OpenFileRig rig(15, {}, std::make_unique<Lasting>(memory.region()));
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  Bytes model = random_bytes(200'000, 1);
  ASSERT_EQ(rig.write(*handle, 0, model), Status{});
  ASSERT_EQ(rig.run(handle->sync({})), Status{});
  const auto write = [&](uint64_t offset, const Bytes& bytes) {
    ASSERT_EQ(rig.write(*handle, offset, bytes), Status{});
    model.resize(std::max<uint64_t>(model.size(), offset + bytes.size()));
    std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
  };
  rig.cluster.meta.refuses_writes = {Code::kUnavailable, "not now"};
  write(100'000, random_bytes(120'000, 2));
  rig.cluster.simulation.run_for(std::chrono::seconds(5));  // it is being written out
  write(110'000, random_bytes(5000, 3));                    // over it
  write(215'000, random_bytes(9000, 4));
  (void)rig.run(rig.files->stop(true));
  (void)rig.run(handle->close({}));
  handle.reset();
  rig.files.reset();
  rig.cluster.meta.refuses_writes = {};

  rig.files = rig.cluster.open_files({}, std::make_unique<Lasting>(memory.region()));
  EXPECT_GE(rig.files->recover(), 120'000u);
  handle = rig.open(inode);
  EXPECT_EQ(difference(rig.read(*handle, 0, 300'000), model), "");
  ASSERT_EQ(rig.run(rig.files->sync_all({})), Status{});
  EXPECT_EQ(rig.files->counts().dirty_memory, 0u);
  EXPECT_EQ(difference(rig.read(*handle, 0, 300'000), model), "");
  rig.close(handle);
}

/// A file of `pieces` extents, each a stripe: the fake metaserver tells of two stripes in one answer.
uint64_t scattered_file(OpenFileRig& rig, uint64_t pieces) {
  constexpr uint64_t kPiece = 4096;
  const uint64_t inode = rig.cluster.meta.add_inode();
  auto handle = rig.open(inode);
  for (uint64_t i = 0; i < pieces; ++i) {
    EXPECT_EQ(rig.write(*handle, i * kPiece, Bytes(kPiece, std::byte(i + 1))), Status{});
    EXPECT_EQ(rig.run(handle->sync({})), Status{});
  }
  rig.close(handle);
  return inode;
}

TEST(OpenFile, IsReadAlsoWhenItHasMoreExtentsThanAllFilesMayRemember) {
  OpenFileRig rig(31, {.known_extents = 2});
  const uint64_t inode = scattered_file(rig, 8);
  auto handle = rig.open(inode);
  const Bytes found = rig.read(*handle, 0, 8 * 4096);
  ASSERT_EQ(found.size(), 8u * 4096);
  for (uint64_t i = 0; i < 8; ++i)
    EXPECT_EQ(found[i * 4096], std::byte(i + 1)) << i;
  rig.close(handle);
}

TEST(OpenFile, RemembersWhereItsBytesAreThoughAnotherOneThatIsOpenFillsTheMemoryForThat) {
  OpenFileRig rig(32, {.known_extents = 8});
  const uint64_t large = scattered_file(rig, 8), small = scattered_file(rig, 2);
  auto first = rig.open(large), second = rig.open(small);
  (void)rig.read(*first, 0, 8 * 4096);
  (void)rig.read(*second, 0, 2 * 4096);
  const int before = rig.cluster.meta.locates;
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(rig.read(*second, 0, 2 * 4096).size(), 2u * 4096);
  EXPECT_EQ(rig.cluster.meta.locates, before) << "it was read last";
  rig.close(first);
  rig.close(second);
}

}  // namespace
}  // namespace kintsugi::client

// Nothing of a chunk outlives its entry in the index, and what is lost is told once.
#include "chunkserver/store/stored_chunks.h"

#include "chunkserver/store/store_options.h"
#include "tests/chunkserver/store_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

constexpr uint64_t kCacheBytes = 16 << 20;
constexpr size_t kLength = 100;

class StoredChunksTest : public testing::Test {
 protected:
  StoredChunksTest() {
    for (const auto* disk : {&first_, &second_})
      chunks_.follow(**disk);
  }
  ~StoredChunksTest() override {
    tasks_.request_stop();
    simulation_.run(tasks_.join());
  }

  const ChunkIndex::Entry& add(uint64_t stripe, StoreRoot& disk, bool in_segment = false) {
    chunks_.index().insert({{chunk_id(stripe), kLength, 0}, &disk, in_segment});
    return *chunks_.index().find(chunk_id(stripe));
  }
  static std::shared_ptr<OpenChunk> opened(const ChunkIndex::Entry& entry) {
    auto chunk = std::make_shared<OpenChunk>();
    chunk->info = entry.info;
    chunk->disk = &entry.root->disk;
    chunk->generation = entry.generation;
    return chunk;
  }

  QuietLog quiet_;
  simulation::Simulation simulation_{1};
  simulation::SimNode node_{simulation_, "server"};
  const runtime::Runtime runtime_ = node_.runtime();
  const StoreOptions options_{.disks = {"/d0", "/d1"}};
  runtime::TaskGroup tasks_{runtime_};
  StoredChunks chunks_{runtime_, kCacheBytes, tasks_};
  std::unique_ptr<StoreRoot> first_ = make_root(runtime_, options_, 0);
  std::unique_ptr<StoreRoot> second_ = make_root(runtime_, options_, 1);
};

TEST_F(StoredChunksTest, NothingIsKeptInMemoryOfAChunkThatLeavesTheIndex) {
  for (const bool in_segment : {false, true}) {
    const ChunkIndex::Entry entry = add(1, *first_, in_segment);
    chunks_.keep_open(entry, opened(entry));
    chunks_.admit(*opened(entry), 0, std::vector<std::byte>(kLength));
    ASSERT_TRUE(chunks_.find_open(entry));
    ASSERT_EQ(chunks_.cache().cached_bytes(), kLength);
    EXPECT_TRUE(chunks_.erase(chunk_id(1)));
    EXPECT_FALSE(chunks_.find_open(entry));
    EXPECT_EQ(chunks_.cache().cached_bytes(), 0u);
    EXPECT_FALSE(chunks_.erase(chunk_id(1)));
    EXPECT_TRUE(chunks_.take_lost().empty()) << "to be removed is not to be lost";
  }
}

TEST_F(StoredChunksTest, ABlockOfACopyThatWasReplacedIsNotCached) {
  const auto old = opened(add(1, *first_));
  chunks_.erase(chunk_id(1));
  const auto now = opened(add(1, *first_));
  chunks_.admit(*old, 0, std::vector<std::byte>(kLength));
  EXPECT_EQ(chunks_.cache().cached_bytes(), 0u);
  chunks_.admit(*now, 0, std::vector<std::byte>(kLength));
  EXPECT_EQ(chunks_.cache().cached_bytes(), kLength);
}

TEST_F(StoredChunksTest, OnlyTheCopyThatWasFoundBadIsDroppedAndItIsToldOnce) {
  const uint64_t old = add(1, *first_).generation;
  chunks_.erase(chunk_id(1));
  const uint64_t now = add(1, *first_).generation;
  EXPECT_FALSE(chunks_.drop_lost(chunk_id(1), old, Code::kNotFound));
  EXPECT_EQ(chunks_.index().size(), 1u);
  EXPECT_TRUE(chunks_.drop_lost(chunk_id(1), now, Code::kNotFound));
  EXPECT_FALSE(chunks_.drop_lost(chunk_id(1), now, Code::kNotFound));
  EXPECT_EQ(chunks_.index().size(), 0u);
  EXPECT_EQ(chunks_.corrupt(), 1u);
  EXPECT_EQ(chunks_.take_lost().size(), 1u);
  EXPECT_TRUE(chunks_.take_lost().empty());
}

TEST_F(StoredChunksTest, ADiskThatFailsTakesItsOwnChunksWithItAndNoOthers) {
  const ChunkIndex::Entry entry = add(1, *first_);
  chunks_.keep_open(entry, opened(entry));
  add(2, *first_, true);
  add(3, *second_);
  first_->disk.fail({Code::kIoError, "it does not read any more"});
  EXPECT_EQ(chunks_.take_lost(),
            (std::vector<ChunkInfo>{{chunk_id(1), kLength, 0}, {chunk_id(2), kLength, 0}}));
  EXPECT_FALSE(chunks_.find_open(entry));
  EXPECT_EQ(chunks_.index().size(), 1u);
  EXPECT_EQ(chunks_.corrupt(), 0u) << "the chunks were well, and the disk was not";
}

}  // namespace
}  // namespace kintsugi::chunkserver

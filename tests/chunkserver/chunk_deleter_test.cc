// Orders to delete chunks of several disks, one of which does not do what it is asked.
#include "chunkserver/service/chunk_deleter.h"

#include "tests/chunkserver/store_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

class ChunkDeleterTest : public testing::Test {
 protected:
  ChunkDeleterTest() : rig_(1, 2), recorder_(rig_.node.runtime().clock, 1) {
    for (const char* disk : {"/d0", "/d1"})
      rig_.node.disk().set_capacity(disk, uint64_t{1} << 34);
    rig_.start();
    for (uint64_t stripe = 1; stripe <= 80; ++stripe)
      KINTSUGI_EXPECT_OK(rig_.put(chunk_id(stripe), chunk_bytes(2 * kMiB, stripe)));
    for (const ListedChunk& chunk : rig_.store->list_with_disks({}, 1000))
      chunks_.at(chunk.disk).push_back(chunk.info.id);
    deleter_ = std::make_unique<ChunkDeleter>(*rig_.runtime, *rig_.store, recorder_);
    deleter_->start();
  }
  ~ChunkDeleterTest() override {
    rig_.node.disk().forget_faults();
    rig_.simulation.run(deleter_->stop());
  }

  void order(const std::vector<ChunkId>& chunks) {
    for (const ChunkId id : chunks)
      EXPECT_TRUE(deleter_->order(id));
  }
  size_t left(const std::vector<ChunkId>& chunks) const {
    return std::ranges::count_if(chunks, [&](ChunkId id) { return rig_.store->find(id).has_value(); });
  }

  StoreRig rig_;
  sight::Recorder recorder_;
  std::unique_ptr<ChunkDeleter> deleter_;
  std::array<std::vector<ChunkId>, 2> chunks_;  ///< of each disk
};

TEST_F(ChunkDeleterTest, DeletesUnderWayOnADiskThatBeginsToHangHoldUpNoneOfAnother) {
  ASSERT_GT(chunks_[0].size(), ChunkDeleter::kDeletesAtOnce);
  rig_.node.disk().set_hung(true, "/d0");
  order(chunks_[0]);  // the disk is not known to hang yet, so some of these begin
  rig_.simulation.run_for(1ms);
  order(chunks_[1]);
  rig_.simulation.run_for(DiskHealth::kHungAfter + 2s);
  EXPECT_EQ(left(chunks_[1]), 0u);
  EXPECT_EQ(deleter_->carried_out(), deleter_->ordered())
      << "what the hung disk keeps is ordered again when it is reported again";
  // And of orders that come later.
  KINTSUGI_ASSERT_OK(rig_.put(chunk_id(1000), chunk_bytes(2 * kMiB, 1000)));
  order({chunk_id(1000)});
  rig_.simulation.run_for(1s);
  EXPECT_FALSE(rig_.store->find(chunk_id(1000)));
  rig_.node.disk().set_hung(false, "/d0");
  rig_.simulation.run_for(1s);
  EXPECT_EQ(left(chunks_[0]), chunks_[0].size() - ChunkDeleter::kDeletesAtOnce);
}

TEST_F(ChunkDeleterTest, AChunkOnAReadOnlyDiskStopsTheConfirmationOfNoOtherOrder) {
  rig_.node.disk().set_read_only(true, "/d0");
  order({chunks_[0][0], chunks_[0][1]});
  order(chunks_[1]);
  rig_.simulation.run_for(1s);
  EXPECT_EQ(left(chunks_[1]), 0u);
  EXPECT_EQ(deleter_->carried_out(), deleter_->ordered());
  EXPECT_EQ(left(chunks_[0]), chunks_[0].size()) << "it can still be read";
}

TEST_F(ChunkDeleterTest, AChunkOnAHungDiskStopsTheConfirmationOfNoOtherOrder) {
  rig_.node.disk().set_hung(true, "/d0");
  rig_.simulation.run_for(DiskHealth::kHungAfter + 2s);
  order({chunks_[0][0], chunks_[0][1]});
  order(chunks_[1]);
  rig_.simulation.run_for(1s);
  EXPECT_EQ(left(chunks_[1]), 0u);
  EXPECT_EQ(deleter_->carried_out(), deleter_->ordered());
  EXPECT_EQ(left(chunks_[0]), chunks_[0].size());
}

TEST_F(ChunkDeleterTest, WhatAHungDiskKeptIsToldOfOnceWhenItAnswersAndWhatAReadOnlyOneKeptIsNot) {
  rig_.node.disk().set_read_only(true, "/d1");
  order({chunks_[1][0]});
  rig_.simulation.run_for(1s);
  EXPECT_FALSE(deleter_->take_kept()) << "it would be ordered again and again";
  rig_.node.disk().set_hung(true, "/d0");
  rig_.simulation.run_for(DiskHealth::kHungAfter + 2s);
  order({chunks_[0][0]});
  rig_.simulation.run_for(1s);
  ASSERT_EQ(left(chunks_[0]), chunks_[0].size());
  EXPECT_FALSE(deleter_->take_kept()) << "it hangs still";
  rig_.node.disk().set_hung(false, "/d0");
  rig_.simulation.run_for(2s);
  EXPECT_TRUE(deleter_->take_kept());
  EXPECT_FALSE(deleter_->take_kept());
}

TEST_F(ChunkDeleterTest, AChunkThatCannotBeDeletedNowIsTriedAgainAndConfirmedThen) {
  rig_.node.disk().fail_next(1, Code::kNoSpace, "/d0", simulation::DiskOp::kRemove);
  order({chunks_[0][0]});
  rig_.simulation.run_for(1s);
  EXPECT_EQ(left(chunks_[0]), chunks_[0].size());
  EXPECT_EQ(deleter_->carried_out(), 0u);
  rig_.simulation.run_for(ChunkDeleter::kRetryAfter);
  EXPECT_EQ(left(chunks_[0]), chunks_[0].size() - 1);
  EXPECT_EQ(deleter_->carried_out(), deleter_->ordered());
}

}  // namespace
}  // namespace kintsugi::chunkserver

#include "tests/chunkserver/store_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

const std::vector<size_t> kLengths{0,        1,        4095, 4096,     kBlockBytes - 1, kBlockBytes,
                                   100'001,  kMiB - 1, kMiB, kMiB + 1, 3 * kMiB + 17,   5 * kMiB,
                                   9'000'001};

TEST(ChunkStore, ReadsBackWhatWasWrittenInAnyLengthAlsoAfterARestart) {
  StoreRig rig;
  rig.start();
  for (size_t i = 0; i < kLengths.size(); ++i) {
    Status stored = rig.put(chunk_id(i + 1), chunk_bytes(kLengths[i], i));
    KINTSUGI_ASSERT_OK(stored) << stored << " for " << kLengths[i];
  }
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < kLengths.size(); ++i) {
      auto bytes = rig.get(chunk_id(i + 1));
      ASSERT_TRUE(bytes) << bytes.error();
      EXPECT_EQ(*bytes, chunk_bytes(kLengths[i], i));
    }
    rig.restart();
  }
}

TEST(ChunkStore, TakesFramesOfAnyNumberOfBlocks) {
  StoreRig rig;
  rig.start();
  for (size_t frame_blocks : {1, 3, 7, 16}) {
    for (size_t length : {300'000ul, kMiB + 300'000ul}) {
      ChunkId id = chunk_id(frame_blocks, length > kMiB);
      Status stored = rig.put(id, chunk_bytes(length, frame_blocks), frame_blocks * kBlockBytes);
      KINTSUGI_ASSERT_OK(stored);
      EXPECT_EQ(*rig.get(id), chunk_bytes(length, frame_blocks));
    }
  }
}

TEST(ChunkStore, ListsChunksSortedAndInPages) {
  StoreRig rig;
  rig.start();
  for (uint64_t stripe : {7, 3, 5}) {
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe, 1), chunk_bytes(2 * kMiB, stripe)));
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe, 0), chunk_bytes(10, stripe)));
  }
  auto first = rig.store->list({}, 4);
  ASSERT_EQ(first.size(), 4u);
  EXPECT_EQ(first[0].id, chunk_id(3, 0));
  EXPECT_EQ(first[3].id, chunk_id(5, 1));
  auto rest = rig.store->list(first.back().id, 4);
  ASSERT_EQ(rest.size(), 2u);
  EXPECT_EQ(rest[1], (ChunkInfo{chunk_id(7, 1), 2 * kMiB, crc32c(chunk_bytes(2 * kMiB, 7))}));
}

TEST(ChunkStore, RefusesWhatDoesNotMatchItsChecksumAndKeepsNothing) {
  StoreRig rig;
  rig.start();
  auto bytes = chunk_bytes(2 * kMiB, 1);
  rig.simulation.run([](StoreRig& rig, std::vector<std::byte> bytes) -> asio::awaitable<void> {
    auto writer = co_await rig.store->create(Context{}, chunk_id(1), "rs-6-3-1024k", bytes.size());
    auto buffer = co_await rig.pool->acquire(TimePoint::max());
    std::memcpy(buffer->data(), bytes.data(), kMiB);
    std::vector<uint32_t> crcs = crc32c_blocks(std::span(bytes).first(kMiB));
    crcs[5] ^= 1;
    Status appended = co_await (*writer)->append(Context{}, std::move(*buffer), kMiB, crcs);
    EXPECT_EQ(appended.code(), Code::kCorrupt);
    EXPECT_NE(appended.message().find("block 5"), std::string::npos) << appended;

    Status good = co_await append_bytes(*rig.pool, **writer, std::span(bytes).first(kMiB));
    KINTSUGI_EXPECT_OK(good);
    auto wrong_crc = co_await (*writer)->commit(Context{}, kMiB, crc32c(bytes));
    EXPECT_EQ(wrong_crc.error().code(), Code::kCorrupt);
  }(rig, bytes));
  EXPECT_EQ(rig.get(chunk_id(1)).error().code(), Code::kNotFound);
  EXPECT_TRUE(rig.files("/d0/tmp").empty());
}

TEST(ChunkStore, RefusesDataAfterAShortBlockAndBeyondTheAnnouncedLength) {
  StoreRig rig;
  rig.start();
  rig.simulation.run([](StoreRig& rig) -> asio::awaitable<void> {
    auto bytes = chunk_bytes(kMiB, 1);
    auto writer = co_await rig.store->create(Context{}, chunk_id(1), "rs-6-3-1024k", kMiB);
    Status shorter = co_await append_bytes(*rig.pool, **writer, std::span(bytes).first(100));
    KINTSUGI_EXPECT_OK(shorter);
    Status after = co_await append_bytes(*rig.pool, **writer, std::span(bytes).first(100));
    EXPECT_EQ(after.code(), Code::kInvalidArgument);
    co_await (*writer)->abort();

    auto small = co_await rig.store->create(Context{}, chunk_id(2), "rs-6-3-1024k", kBlockBytes);
    Status beyond = co_await append_bytes(*rig.pool, **small, bytes);
    EXPECT_EQ(beyond.code(), Code::kInvalidArgument);
    auto wrong_length = co_await (*small)->commit(Context{}, 7, 0);
    EXPECT_EQ(wrong_length.error().code(), Code::kInvalidArgument);
    auto huge = co_await rig.store->create(Context{}, chunk_id(3), "rs-6-3-1024k", kMaxChunkBytes + 1);
    EXPECT_EQ(huge.error().code(), Code::kInvalidArgument);
  }(rig));
}

TEST(ChunkStore, AChunkThatIsRemovedWhileItIsWrittenStaysRemoved) {
  StoreRig rig;
  rig.start();
  rig.simulation.run([](StoreRig& rig) -> asio::awaitable<void> {
    const auto bytes = chunk_bytes(kMiB, 1);
    for (const size_t length : {1000ul, bytes.size()}) {
      const ChunkId id = chunk_id(length);
      auto writer = co_await rig.store->create(Context{}, id, "rs-6-3-1024k", length);
      KINTSUGI_EXPECT_OK(co_await append_bytes(*rig.pool, **writer, std::span(bytes).first(length)));
      runtime::TaskGroup later(*rig.runtime);
      co_await later.sleep_for(1ms);
      EXPECT_EQ((co_await rig.store->remove(Context{}, id)).code(), Code::kNotFound);
      auto late = co_await (*writer)->commit(Context{}, length, crc32c(std::span(bytes).first(length)));
      EXPECT_EQ(late.error().code(), Code::kConflict);
      EXPECT_EQ(rig.store->find(id), std::nullopt);
    }
  }(rig));
  EXPECT_TRUE(rig.files("/d0/tmp").empty());
  // A repair that begins later may choose the place again.
  KINTSUGI_EXPECT_OK(rig.put(chunk_id(1000), chunk_bytes(1000, 1)));
}

TEST(ChunkStore, AWriterThatIsDroppedLeavesNothing) {
  StoreRig rig;
  rig.start();
  rig.simulation.run([](StoreRig& rig) -> asio::awaitable<void> {
    auto bytes = chunk_bytes(kMiB, 1);
    auto writer = co_await rig.store->create(Context{}, chunk_id(1), "rs-6-3-1024k", 8 * kMiB);
    for (int i = 0; i < 3; ++i) {
      Status appended = co_await append_bytes(*rig.pool, **writer, bytes);
      KINTSUGI_EXPECT_OK(appended);
    }
    EXPECT_EQ(rig.store->open_writers(), 1u);
  }(rig));
  EXPECT_EQ(rig.store->open_writers(), 0u);
  rig.simulation.run_for(1s);
  EXPECT_TRUE(rig.files("/d0/tmp").empty());
  EXPECT_EQ(rig.pool->free(), 16u);
}

TEST(ChunkStore, TheSameChunkMayBeCommittedAgainButNoOtherUnderItsName) {
  StoreRig rig;
  rig.start();
  for (size_t length : {1000ul, 2 * kMiB}) {
    ChunkId id = chunk_id(length);
    KINTSUGI_ASSERT_OK(rig.put(id, chunk_bytes(length, 1)));
    KINTSUGI_EXPECT_OK(rig.put(id, chunk_bytes(length, 1)));
    EXPECT_EQ(rig.put(id, chunk_bytes(length, 2)).code(), Code::kAlreadyExists);
    EXPECT_EQ(*rig.get(id), chunk_bytes(length, 1));
  }
  EXPECT_EQ(rig.store->chunks(), 2u);
  EXPECT_TRUE(rig.files("/d0/tmp").empty());
}

TEST(ChunkStore, ARemovedChunkIsGoneAndStaysGone) {
  StoreRig rig;
  rig.start();
  for (size_t length : {1000ul, 2 * kMiB}) {
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(length), chunk_bytes(length, 1)));
    KINTSUGI_EXPECT_OK(rig.remove(chunk_id(length)));
    EXPECT_EQ(rig.remove(chunk_id(length)).code(), Code::kNotFound);
  }
  rig.restart();
  EXPECT_EQ(rig.store->chunks(), 0u);
  EXPECT_EQ(rig.store->stored_bytes(), 0u);
  // The name is free for another chunk.
  KINTSUGI_ASSERT_OK(rig.put(chunk_id(1000), chunk_bytes(1000, 2)));
  rig.restart();
  EXPECT_EQ(*rig.get(chunk_id(1000)), chunk_bytes(1000, 2));
}

TEST(ChunkStore, NeverServesAFlippedBitButReportsTheChunkLost) {
  for (size_t length : {100'000ul, 3 * kMiB}) {
    StoreRig rig;
    rig.start();
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(0x51), chunk_bytes(length, 1)));
    const bool small = length < kMiB;
    std::string path = small ? "/d0/segments/" + rig.files("/d0/segments").at(0)
                             : chunk_file(rig.node.disk(), "/d0", chunk_id(0x51));
    KINTSUGI_ASSERT_OK(rig.node.disk().flip_bit(path, 4096 + kBlockBytes + 77, 3));
    auto bytes = rig.get(chunk_id(0x51));
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().code(), Code::kCorrupt);
    EXPECT_NE(bytes.error().message().find("block 1"), std::string::npos) << bytes.error();
    EXPECT_EQ(rig.get(chunk_id(0x51)).error().code(), Code::kNotFound);
    auto lost = rig.store->take_lost();
    ASSERT_EQ(lost.size(), 1u);
    EXPECT_EQ(lost[0].id, chunk_id(0x51));
    EXPECT_EQ(rig.store->counters().corrupt_chunks, 1u);
    rig.simulation.run_for(1s);
    EXPECT_EQ(rig.files("/d0/quarantine").size(), small ? 0u : 1u);
    rig.restart();
    EXPECT_EQ(rig.store->chunks(), 0u);
    // A repair may put the chunk back.
    KINTSUGI_EXPECT_OK(rig.put(chunk_id(0x51), chunk_bytes(length, 1)));
    EXPECT_EQ(*rig.get(chunk_id(0x51)), chunk_bytes(length, 1));
  }
}

TEST(ChunkStore, AReaderOfADamagedCopyDoesNotCondemnTheOneThatReplacedIt) {
  for (size_t length : {5000ul, 100'000ul, 3 * kMiB}) {
    const uint64_t damaged = length > kBlockBytes ? kBlockBytes + 77 : 77;
    StoreRig rig;
    rig.start();
    const ChunkId id = chunk_id(0x51);
    KINTSUGI_ASSERT_OK(rig.put(id, chunk_bytes(length, 1)));
    std::string path = length < kMiB ? "/d0/segments/" + rig.files("/d0/segments").at(0)
                                     : chunk_file(rig.node.disk(), "/d0", chunk_id(0x51));
    KINTSUGI_ASSERT_OK(rig.node.disk().flip_bit(path, 4096 + damaged, 3));
    auto slow_reader = rig.simulation.run(rig.store->open(Context{}, id));
    ASSERT_TRUE(slow_reader);
    KINTSUGI_ASSERT_OK(rig.put(id, chunk_bytes(length, 1)));  // a repair proves and replaces it
    auto buffer = std::make_shared<runtime::Buffer>(rig.pool->try_acquire());
    auto blocks =
        rig.simulation.run((*slow_reader)->read_blocks(Context{}, damaged / kBlockBytes, 1, buffer));
    ASSERT_FALSE(blocks);
    EXPECT_EQ(blocks.error().code(), Code::kCorrupt);
    slow_reader->reset();
    buffer.reset();
    EXPECT_TRUE(rig.store->take_lost().empty());
    auto bytes = rig.get(id);
    ASSERT_TRUE(bytes) << bytes.error();
    EXPECT_EQ(*bytes, chunk_bytes(length, 1));
  }
}

TEST(ChunkStore, TheCopyThatARepairProvedIsTheOneThatIsServedOnWhicheverDiskTheOldOneLies) {
  for (const bool old_disk_is_full : {false, true}) {
    for (const size_t length : {5000ul, 100'000ul, 3 * kMiB}) {
      const uint64_t damaged = length > kBlockBytes ? kBlockBytes + 77 : 77;
      SCOPED_TRACE(std::to_string(length) + (old_disk_is_full ? " full" : ""));
      StoreRig rig(1, 2);
      rig.node.disk().set_capacity("/d0", 1ull << 30);
      rig.node.disk().set_capacity("/d1", 16 * kMiB);  // too little for the chunk
      rig.start();
      const ChunkId id = chunk_id(0x51);
      KINTSUGI_ASSERT_OK(rig.put(id, chunk_bytes(length, 1)));
      const std::string path = length < kMiB ? "/d0/segments/" + rig.files("/d0/segments").at(0)
                                             : chunk_file(rig.node.disk(), "/d0", chunk_id(0x51));
      KINTSUGI_ASSERT_OK(rig.node.disk().flip_bit(path, 4096 + damaged, 3));
      // Now the other disk has more room.
      rig.node.disk().set_capacity("/d1", 1ull << 30);
      rig.node.disk().set_capacity("/d0", 512 * kMiB);
      if (old_disk_is_full) rig.node.disk().fill("/d0");
      rig.simulation.run_for(2s);  // in which it is noticed
      Status repaired = rig.put(id, chunk_bytes(length, 1));
      KINTSUGI_ASSERT_OK(repaired);
      for (int round = 0; round < 2; ++round) {
        auto bytes = rig.get(id);
        ASSERT_TRUE(bytes) << bytes.error();
        EXPECT_EQ(*bytes, chunk_bytes(length, 1));
        EXPECT_TRUE(rig.store->take_lost().empty());
        EXPECT_EQ(rig.store->stored_bytes(), length);
        rig.restart();
      }
      KINTSUGI_EXPECT_OK(rig.remove(id));
      rig.restart();
      EXPECT_EQ(rig.store->chunks(), 0u) << "an old copy was left behind";
    }
  }
}

TEST(ChunkStore, ADamagedHeaderOrTableIsQuarantined) {
  StoreRig rig;
  rig.start();
  const size_t length = 3 * kMiB;
  for (uint64_t stripe : {1, 2, 3})
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(length, stripe)));
  rig.stop();
  KINTSUGI_ASSERT_OK(rig.node.disk().flip_bit(chunk_file(rig.node.disk(), "/d0", chunk_id(1)), 40));
  KINTSUGI_ASSERT_OK(
      rig.node.disk().flip_bit(chunk_file(rig.node.disk(), "/d0", chunk_id(2)), 4096 + length + 5));
  rig.start();
  EXPECT_EQ(rig.get(chunk_id(1)).error().code(), Code::kCorrupt);
  EXPECT_EQ(rig.get(chunk_id(2)).error().code(), Code::kCorrupt);
  EXPECT_EQ(*rig.get(chunk_id(3)), chunk_bytes(length, 3));
  EXPECT_EQ(rig.store->take_lost().size(), 2u);
  rig.simulation.run_for(1s);
  EXPECT_EQ(rig.files("/d0/quarantine").size(), 2u);
}

/// After a power loss at any moment, everything that a writer was told is true.
void crash_once(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  SegmentLimits segments;
  segments.segment_bytes = 2 << 20;
  StoreRig rig(seed, 1, segments);
  rig.start();
  std::mt19937_64 random(seed);
  std::map<ChunkId, size_t> acknowledged;
  std::set<ChunkId> removed, doubtful;
  for (int life = 0; life < 3; ++life) {
    auto work = [](StoreRig& rig, uint64_t seed, std::map<ChunkId, size_t>& acknowledged,
                   std::set<ChunkId>& removed, std::set<ChunkId>& doubtful) -> asio::awaitable<void> {
      std::mt19937_64 random(seed);
      while (rig.node.running()) {
        const bool remove = random() % 3 == 0 && !acknowledged.empty();
        if (remove) {
          auto victim = std::next(acknowledged.begin(), random() % acknowledged.size());
          const ChunkId id = victim->first;
          acknowledged.erase(victim);
          Status done = co_await rig.store->remove(Context{}, id);
          if (done.ok()) removed.insert(id);
          continue;
        }
        const bool small = random() % 2 == 0;
        const ChunkId id = chunk_id(1 + random() % 1'000'000, small ? 0 : 1);
        if (acknowledged.contains(id) || removed.contains(id) || doubtful.contains(id)) continue;
        const size_t length = small ? random() % 200'000 : kMiB + random() % kMiB;
        doubtful.insert(id);
        Status stored =
            co_await chunkserver::put(*rig.store, *rig.pool, id, chunk_bytes(length, id.stripe.value));
        if (stored.ok()) acknowledged[id] = length;
      }
    };
    for (int i = 0; i < 3; ++i) {
      asio::co_spawn(rig.simulation.executor(), work(rig, random(), acknowledged, removed, doubtful),
                     asio::detached);
    }
    rig.simulation.run_for(std::chrono::microseconds(1 + random() % 30'000));
    rig.node.crash();
    rig.simulation.run_for(1s);
    rig.stop();
    rig.node.restart();
    rig.start();
    for (const auto& [id, length] : acknowledged) {
      auto bytes = rig.get(id);
      ASSERT_TRUE(bytes) << bytes.error();
      ASSERT_EQ(*bytes, chunk_bytes(length, id.stripe.value));
    }
    for (ChunkId id : removed)
      ASSERT_FALSE(rig.store->find(id)) << id << " came back";
    for (const ChunkInfo& chunk : rig.store->list({}, 100'000)) {
      auto bytes = rig.get(chunk.id);
      ASSERT_TRUE(bytes) << "never served: " << bytes.error();
      ASSERT_EQ(*bytes, chunk_bytes(chunk.length, chunk.id.stripe.value));
    }
    ASSERT_EQ(rig.store->counters().corrupt_chunks, 0u);
    ASSERT_TRUE(rig.files("/d0/tmp").empty());
  }
}

TEST(ChunkStore, KeepsWhatItAcknowledgedAndNothingTornThroughPowerLosses) {
  for (uint64_t seed = 1; seed <= 30 && !::testing::Test::HasFailure(); ++seed)
    crash_once(seed);
}

}  // namespace
}  // namespace kintsugi::chunkserver

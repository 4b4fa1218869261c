// Small chunks: group commit, rebuilding, tombstones and cleaning, with crashes.
#include "tests/chunkserver/store_rig.h"
#include "tests/expect_ok.h"

namespace kintsugi::chunkserver {
namespace {

SegmentLimits tiny_segments() {
  SegmentLimits limits;
  limits.segment_bytes = 256 * 1024;
  limits.allocation_step_bytes = 64 * 1024;
  limits.clean_interval = std::chrono::hours(10);  // the test cleans
  return limits;
}

std::vector<std::byte> content(uint64_t stripe) {
  return chunk_bytes(1000 + stripe * 37 % 30'000, stripe);
}

TEST(SegmentLog, ManyWritersShareASync) {
  StoreRig rig;
  rig.start();
  const uint64_t before = rig.node.disk().counters().syncs;
  size_t stored = 0;
  auto one = [](StoreRig& rig, uint64_t stripe, size_t& stored) -> asio::awaitable<void> {
    Status status = co_await put(*rig.store, *rig.pool, chunk_id(stripe), content(stripe));
    KINTSUGI_EXPECT_OK(status);
    ++stored;
  };
  for (uint64_t stripe = 1; stripe <= 100; ++stripe) {
    asio::co_spawn(rig.simulation.executor(), one(rig, stripe, stored), asio::detached);
  }
  EXPECT_TRUE(rig.simulation.run_until([&] { return stored == 100; }));
  EXPECT_LE(rig.node.disk().counters().syncs - before, 20u);
}

TEST(SegmentLog, CleaningKeepsWhatLivesAndGivesSpaceBack) {
  StoreRig rig(1, 1, tiny_segments());
  rig.start();
  for (uint64_t stripe = 1; stripe <= 100; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), content(stripe)));
  const size_t before = rig.files("/d0/segments").size();
  for (uint64_t stripe = 1; stripe <= 100; ++stripe) {
    if (stripe % 10 != 0) {
      KINTSUGI_ASSERT_OK(rig.remove(chunk_id(stripe)));
    }
  }
  Status cleaned = rig.simulation.run(rig.store->clean_segments(Context{}));
  KINTSUGI_ASSERT_OK(cleaned);
  EXPECT_LT(rig.files("/d0/segments").size(), before / 2);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(rig.store->chunks(), 10u);
    for (uint64_t stripe = 10; stripe <= 100; stripe += 10)
      EXPECT_EQ(*rig.get(chunk_id(stripe)), content(stripe));
    rig.restart();
  }
}

TEST(SegmentLog, AReaderKeepsReadingWhileItsSegmentIsCleanedAway) {
  StoreRig rig(1, 1, tiny_segments());
  rig.start();
  for (uint64_t stripe = 1; stripe <= 50; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), content(stripe)));
  auto reader = rig.simulation.run(rig.store->open(Context{}, chunk_id(5)));
  ASSERT_TRUE(reader);
  for (uint64_t stripe = 1; stripe <= 50; ++stripe) {
    if (stripe != 5) {
      KINTSUGI_ASSERT_OK(rig.remove(chunk_id(stripe)));
    }
  }
  KINTSUGI_ASSERT_OK(rig.simulation.run(rig.store->clean_segments(Context{})));
  rig.simulation.run([](StoreRig& rig, ChunkReader& reader) -> asio::awaitable<void> {
    const auto buffer = std::make_shared<runtime::Buffer>(rig.pool->try_acquire());
    auto blocks = co_await reader.read_blocks(Context{}, 0, 1, buffer);
    EXPECT_TRUE(blocks) << blocks.error();
  }(rig, **reader));
}

TEST(SegmentLog, ChunksOfOneSegmentSurviveADamagedNeighbour) {
  StoreRig rig(1, 1, tiny_segments());
  rig.start();
  for (uint64_t stripe = 1; stripe <= 5; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(5000, stripe)));
  rig.stop();
  // The header of the second record: each one takes 4 KiB and 8 KiB of data.
  KINTSUGI_ASSERT_OK(rig.node.disk().flip_bit("/d0/segments/" + rig.files("/d0/segments").at(0), 12288 + 20));
  rig.start();
  // The footer says what the header did, and the bytes are whole: it can be read, until somebody reads its header.
  EXPECT_EQ(*rig.get(chunk_id(2)), chunk_bytes(5000, 2));
  EXPECT_EQ(rig.get(chunk_id(2), ReadFor::kVerification).error().code(), Code::kCorrupt);
  EXPECT_EQ(rig.store->take_lost().size(), 1u);
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(rig.store->chunks(), 4u);
    for (uint64_t stripe : {1, 3, 4, 5})
      EXPECT_EQ(*rig.get(chunk_id(stripe)), chunk_bytes(5000, stripe));
    rig.restart();
  }
}

TEST(SegmentLog, AChunkOfOneBlockIsReadByOneCallToTheDisk) {
  StoreRig rig(1, 1, tiny_segments());
  rig.start();
  const std::vector<uint64_t> lengths = {1, 5000, kBlockBytes, kBlockBytes + 1};
  for (size_t i = 0; i < lengths.size(); ++i)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(i), chunk_bytes(lengths[i], i)));
  for (int start = 0; start < 2; ++start) {
    for (size_t i = 0; i < lengths.size(); ++i) {
      const uint64_t before = rig.node.disk().counters().reads;
      EXPECT_EQ(*rig.get(chunk_id(i)), chunk_bytes(lengths[i], i));
      // A longer one's checksums are in its header.
      EXPECT_EQ(rig.node.disk().counters().reads - before, lengths[i] <= kBlockBytes ? 1u : 2u);
    }
    rig.restart();
  }
}

TEST(SegmentLog, ADamagedByteOfAChunkOfOneBlockIsNeverGivenToAReader) {
  StoreRig rig(1, 1, tiny_segments());
  rig.start();
  KINTSUGI_ASSERT_OK(rig.put(chunk_id(1), chunk_bytes(5000, 1)));
  const std::string path = "/d0/segments/" + rig.files("/d0/segments").at(0);
  KINTSUGI_ASSERT_OK(rig.node.disk().flip_bit(path, kRecordHeaderBytes + 4999));
  EXPECT_EQ(rig.get(chunk_id(1)).error().code(), Code::kCorrupt);
  EXPECT_EQ(rig.store->take_lost().size(), 1u);
  EXPECT_EQ(rig.get(chunk_id(1)).error().code(), Code::kNotFound);
}

TEST(SegmentLog, ADamagedRecordOfASegmentWithoutAFooterIsLostAlone) {
  StoreRig rig(1, 1, tiny_segments());
  rig.start();
  for (uint64_t stripe = 1; stripe <= 5; ++stripe)
    KINTSUGI_ASSERT_OK(rig.put(chunk_id(stripe), chunk_bytes(5000, stripe)));
  rig.stop();
  const std::string path = "/d0/segments/" + rig.files("/d0/segments").at(0);
  KINTSUGI_ASSERT_OK(rig.node.disk().flip_bit(path, 12288 + 20));
  KINTSUGI_ASSERT_OK(rig.node.disk().resize(path, 5 * 12288));
  rig.start();
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(rig.store->chunks(), 4u);
    for (uint64_t stripe : {1, 3, 4, 5})
      EXPECT_EQ(*rig.get(chunk_id(stripe)), chunk_bytes(5000, stripe));
    rig.restart();
  }
}

/// Random puts, removals and cleaning, cut by crashes: acknowledged chunks live, acknowledged removals hold.
void churn(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  StoreRig rig(seed, 1, tiny_segments());
  rig.start();
  std::mt19937_64 random(seed);
  std::map<ChunkId, uint64_t> present;           // content's seed
  std::map<ChunkId, std::set<uint64_t>> unsure;  // operation cut by a crash: old or new; 0 is absent
  uint64_t version = 1;
  for (int life = 0; life < 4; ++life) {
    bool done = false;
    auto work = [](StoreRig& rig, std::mt19937_64& random, std::map<ChunkId, uint64_t>& present,
                   std::map<ChunkId, std::set<uint64_t>>& unsure, uint64_t& version,
                   bool& done) -> asio::awaitable<void> {
      while (rig.node.running()) {
        const ChunkId id = chunk_id(1 + random() % 60);
        const bool is_present = present.contains(id);
        if (random() % 20 == 0) {
          (void)co_await rig.store->clean_segments(Context{});
        } else if (is_present) {
          unsure[id] = {present[id], 0};
          Status removed = co_await rig.store->remove(Context{}, id);
          if (!removed.ok()) break;
          present.erase(id);
          unsure.erase(id);
        } else {
          const uint64_t content = ++version;
          unsure[id] = {0, content};
          Status stored =
              co_await put(*rig.store, *rig.pool, id, chunk_bytes(content * 7919 % 40'000, content));
          if (!stored.ok()) break;
          present[id] = content;
          unsure.erase(id);
        }
      }
      done = true;
    };
    asio::co_spawn(rig.simulation.executor(), work(rig, random, present, unsure, version, done),
                   asio::detached);
    rig.simulation.run_for(std::chrono::microseconds(random() % 300'000));
    rig.node.crash();
    ASSERT_TRUE(rig.simulation.run_until([&] { return done; }, 10min));
    rig.stop();
    rig.node.restart();
    rig.start();
    for (uint64_t stripe = 1; stripe <= 60; ++stripe) {
      const ChunkId id = chunk_id(stripe);
      auto bytes = rig.get(id);
      std::set<uint64_t> allowed{present.contains(id) ? present[id] : 0};
      if (unsure.contains(id)) allowed = unsure[id];
      bool matches = false;
      for (uint64_t content : allowed) {
        if (content == 0 ? !bytes && bytes.error().code() == Code::kNotFound
                         : bytes && *bytes == chunk_bytes(content * 7919 % 40'000, content)) {
          matches = true;
          present.erase(id);
          if (content != 0) present[id] = content;
        }
      }
      ASSERT_TRUE(matches) << id << (bytes ? " is there" : " is not there");
    }
    unsure.clear();
  }
}

TEST(SegmentLog, NeitherLosesNorResurrectsChunksWhenCleaningIsCutByCrashes) {
  for (uint64_t seed = 1; seed <= 60 && !::testing::Test::HasFailure(); ++seed)
    churn(seed);
}

}  // namespace
}  // namespace kintsugi::chunkserver

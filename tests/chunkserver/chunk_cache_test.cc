// The cache keeps the right blocks of the chunks that are read, and the usage profile turns reads into heat.
#include "chunkserver/store/chunk_cache.h"

#include <deque>
#include <map>
#include <random>

#include <malloc.h>

#include "chunkserver/store/usage_profile.h"
#include "tests/chunkserver/store_rig.h"
#include "tests/simulation/runtime/sim_clock.h"

namespace kintsugi::chunkserver {
namespace {

/// Chunks of one block, unless a test says otherwise.
constexpr uint64_t kBlock = kBlockBytes;

class CacheRig {
 public:
  explicit CacheRig(uint64_t capacity) : cache(capacity, node.runtime().clock) {}

  /// As a reader does: true when the disk was not needed.
  bool read(uint64_t chunk, uint64_t block = 0, uint64_t length = kBlock) {
    std::vector<std::byte> bytes(std::min(kBlock, length - block * kBlock));
    const CachedCopy copy{chunk_id(chunk), 1, length};
    if (this->copy(copy, block, bytes, true)) {
      EXPECT_EQ(bytes, content(chunk, block, bytes.size()));
      return true;
    }
    cache.admit(copy, block, content(chunk, block, bytes.size()));
    return false;
  }
  /// The whole block into `bytes`; false when it is not in the cache.
  bool copy(const CachedCopy& chunk, uint64_t block, std::vector<std::byte>& bytes, bool user) {
    const std::span<const std::byte> kept = cache.use(chunk, block, user);
    if (kept.empty()) return false;
    bytes.assign(kept.begin(), kept.end());
    return true;
  }
  /// Cheap, and different for each block.
  static std::vector<std::byte> content(uint64_t chunk, uint64_t block, size_t size) {
    return std::vector<std::byte>(size, static_cast<std::byte>(chunk * 31 + block * 7 + 1));
  }
  void pass(Duration time) { simulation.run_for(time); }

  simulation::Simulation simulation{1};
  simulation::SimNode node{simulation, "server"};
  ChunkCache cache;
};

TEST(ChunkCache, GivesBackWhatWasPutInAndNothingElse) {
  CacheRig rig(kMiB);
  const uint64_t length = 2 * kBlock - 1000;
  EXPECT_FALSE(rig.read(1, 0, length));
  EXPECT_FALSE(rig.cache.cached(chunk_id(1)));
  EXPECT_FALSE(rig.read(1, 1, length));
  EXPECT_TRUE(rig.cache.cached(chunk_id(1)));
  EXPECT_TRUE(rig.read(1, 0, length));
  EXPECT_TRUE(rig.read(1, 1, length));
  EXPECT_EQ(rig.cache.cached_bytes(), length);
  std::vector<std::byte> bytes(kBlock);
  EXPECT_FALSE(rig.copy({chunk_id(2), 1, kBlock}, 0, bytes, true));
  EXPECT_FALSE(rig.copy({chunk_id(1), 2, length}, 0, bytes, true)) << "another copy of the chunk";
  rig.cache.erase(chunk_id(1));
  EXPECT_FALSE(rig.cache.cached(chunk_id(1)));
  EXPECT_EQ(rig.cache.cached_bytes(), 0u);
  EXPECT_FALSE(rig.read(1, 0, length));
}

TEST(ChunkCache, OfSizeZeroKeepsNothing) {
  CacheRig rig(0);
  EXPECT_FALSE(rig.read(1));
  EXPECT_FALSE(rig.read(1));
  EXPECT_EQ(rig.cache.memory_bytes(), 0u);
}

/// Reads a hot set of half of the cache until it has proven itself, then one scan of ten caches.
TEST(ChunkCache, AHotSetSurvivesAScanTenTimesTheCache) {
  constexpr uint64_t kBlocks = 160;
  CacheRig rig(kBlocks * (kBlock + 512));
  constexpr uint64_t kHot = kBlocks / 2;
  for (int round = 0; round < 2; ++round) {
    for (uint64_t chunk = 0; chunk < kHot; ++chunk)
      rig.read(chunk);
    rig.pass(2s);
  }
  for (uint64_t chunk = 1000; chunk < 1000 + 10 * kBlocks; ++chunk)
    rig.read(chunk);
  uint64_t kept = 0;
  for (uint64_t chunk = 0; chunk < kHot; ++chunk)
    kept += rig.cache.cached(chunk_id(chunk)) ? 1 : 0;
  EXPECT_EQ(kept, kHot);
}

TEST(ChunkCache, AScanInSmallPiecesIsStillAScan) {
  constexpr uint64_t kBlocks = 160;
  CacheRig rig(kBlocks * (kBlock + 512));
  for (int round = 0; round < 2; ++round) {
    for (uint64_t chunk = 0; chunk < kBlocks / 2; ++chunk)
      rig.read(chunk);
    rig.pass(2s);
  }
  for (uint64_t chunk = 1000; chunk < 1000 + 10 * kBlocks; ++chunk) {
    for (int piece = 0; piece < 16; ++piece) {
      rig.read(chunk);
      rig.pass(1ms);
    }
  }
  for (uint64_t chunk = 0; chunk < kBlocks / 2; ++chunk)
    ASSERT_TRUE(rig.read(chunk)) << "chunk " << chunk << " was pushed out by what was read once";
}

TEST(ChunkCache, ANewHotSetTakesThePlaceOfTheOldOne) {
  constexpr uint64_t kBlocks = 160;
  CacheRig rig(kBlocks * (kBlock + 512));
  for (uint64_t set = 0; set < 3; ++set) {
    for (int round = 0; round < 6; ++round) {
      for (uint64_t chunk = 0; chunk < kBlocks / 2; ++chunk)
        rig.read(set * 1000 + chunk);
      rig.pass(2s);
    }
    for (uint64_t chunk = 0; chunk < kBlocks / 2; ++chunk)
      ASSERT_TRUE(rig.read(set * 1000 + chunk)) << "set " << set << " chunk " << chunk;
  }
}

TEST(ChunkCache, WhatNobodyReadsForAWhileLeavesThoughThereIsRoom) {
  CacheRig rig(16 * kMiB);
  const auto pass_and_drop = [&](Duration time) {
    rig.pass(time);
    rig.cache.drop_unread(rig.node.runtime().clock.now() - 10min);
  };
  for (uint64_t chunk = 1; chunk <= 3; ++chunk)
    rig.read(chunk);
  pass_and_drop(9min);
  EXPECT_TRUE(rig.read(1));  // and is proven from now on
  pass_and_drop(9min);
  EXPECT_TRUE(rig.read(1));
  EXPECT_FALSE(rig.cache.cached(chunk_id(2)));
  EXPECT_EQ(rig.cache.cached_bytes(), kBlock);
  std::vector<std::byte> bytes(kBlock);
  pass_and_drop(9min);
  EXPECT_TRUE(rig.copy({chunk_id(1), 1, kBlock}, 0, bytes, false)) << "a repair reads it";
  pass_and_drop(9min);
  EXPECT_FALSE(rig.cache.cached(chunk_id(1))) << "but no user did";
  EXPECT_EQ(rig.cache.memory_bytes(), 0u);
}

TEST(ChunkCache, BackgroundReadsTakeWhatIsThereAndKeepNothingAlive) {
  constexpr uint64_t kBlocks = 16;
  CacheRig rig(kBlocks * (kBlock + 512));
  rig.read(1);
  std::vector<std::byte> bytes(kBlock);
  for (int i = 0; i < 3; ++i) {
    rig.pass(2s);
    EXPECT_TRUE(rig.copy({chunk_id(1), 1, kBlock}, 0, bytes, false));
  }
  for (uint64_t chunk = 1000; chunk < 1000 + 2 * kBlocks; ++chunk)
    rig.read(chunk);
  EXPECT_FALSE(rig.cache.cached(chunk_id(1)));
  EXPECT_EQ(rig.cache.counters().hits, 0u);
  EXPECT_EQ(rig.cache.counters().background_hits, 3u);
}

TEST(ChunkCache, CountsAChunkAsCachedWhenNearlyAllOfItIs) {
  CacheRig rig(64 * kMiB);
  const uint64_t length = 32 * kBlock;
  std::vector<ChunkId> told;
  rig.cache.on_change = [&](ChunkId id) { told.push_back(id); };
  for (uint64_t block = 0; block < 29; ++block)
    rig.read(7, block, length);
  EXPECT_FALSE(rig.cache.cached(chunk_id(7)));
  EXPECT_TRUE(told.empty());
  rig.read(7, 29, length);
  EXPECT_TRUE(rig.cache.cached(chunk_id(7)));
  EXPECT_EQ(told.size(), 1u);
  EXPECT_EQ(rig.cache.cached_chunks(), 1u);
  rig.cache.erase(chunk_id(7));
  EXPECT_EQ(told.size(), 2u);
  EXPECT_EQ(rig.cache.cached_chunks(), 0u);
}

TEST(ChunkCache, CountsTheMemoryItReallyTakes) {
#ifdef KINTSUGI_SANITIZED
  GTEST_SKIP() << "the sanitizer's allocator does not tell";
#endif
  for (const uint64_t length : {uint64_t{700}, 3 * kBlock}) {
    CacheRig rig(24 * kMiB);
    const size_t before = mallinfo2().uordblks;
    for (uint64_t chunk = 0; chunk < 40'000; ++chunk) {
      for (uint64_t block = 0; block < blocks_of(length); ++block)
        rig.read(chunk, block, length);
    }
    const size_t after = mallinfo2().uordblks;
    const double really = static_cast<double>(after - before);
    const double counted = static_cast<double>(rig.cache.memory_bytes());
    EXPECT_LE(rig.cache.memory_bytes(), rig.cache.capacity_bytes());
    EXPECT_GT(rig.cache.counters().evicted, 0u);
    EXPECT_LT(really, counted * 1.05) << "chunks of " << length;
    EXPECT_GT(really, counted * 0.7) << "chunks of " << length;
  }
}

/// A cache that forgets what was used longest ago, in blocks.
class NaiveLru {
 public:
  explicit NaiveLru(size_t blocks) : blocks_(blocks) {}
  bool read(uint64_t chunk) {
    const auto found = std::find(order_.begin(), order_.end(), chunk);
    const bool hit = found != order_.end();
    if (hit) order_.erase(found);
    order_.push_back(chunk);
    if (order_.size() > blocks_) order_.pop_front();
    return hit;
  }

 private:
  size_t blocks_;
  std::deque<uint64_t> order_;
};

TEST(ChunkCache, IsAsGoodAsLruOnSkewedReadsAndBetterBesideAScan) {
  constexpr uint64_t kBlocks = 100, kChunks = 1000;
  const uint64_t seed = simulation::Simulation::seed_from_environment(11);
  SCOPED_TRACE("KINTSUGI_SIM_SEED=" + std::to_string(seed));
  for (const bool scan : {false, true}) {
    CacheRig rig(kBlocks * (kBlock + 512));
    NaiveLru lru(kBlocks);
    std::mt19937_64 random(seed);
    std::vector<double> weights;
    for (uint64_t i = 0; i < kChunks; ++i)
      weights.push_back(1.0 / static_cast<double>(i + 1));
    std::discrete_distribution<uint64_t> zipf(weights.begin(), weights.end());
    uint64_t hits = 0, lru_hits = 0, next = kChunks;
    for (int i = 0; i < 10'000; ++i) {
      const uint64_t chunk = zipf(random);
      hits += rig.read(chunk) ? 1 : 0;
      lru_hits += lru.read(chunk) ? 1 : 0;
      for (int step = 0; scan && step < 4; ++step) {
        rig.read(next);
        lru.read(next++);
      }
      rig.pass(50ms);
    }
    if (scan) {
      EXPECT_GT(static_cast<double>(hits), 1.5 * static_cast<double>(lru_hits));
    } else {
      EXPECT_GT(static_cast<double>(hits), 0.95 * static_cast<double>(lru_hits));
    }
  }
}

/// Against what must hold whatever is evicted.
TEST(ChunkCache, NeverGivesWrongBytesNorTakesMoreMemoryWhateverHappens) {
  const uint64_t seed = simulation::Simulation::seed_from_environment(5);
  SCOPED_TRACE("KINTSUGI_SIM_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  CacheRig rig(2 * kMiB);
  struct Model {
    uint64_t generation = 1;
    std::set<uint64_t> may_be_here;  ///< blocks admitted since the last erase
  };
  std::map<uint64_t, Model> model;
  std::set<ChunkId> cached;
  rig.cache.on_change = [&](ChunkId id) {
    EXPECT_NE(cached.contains(id), rig.cache.cached(id)) << "told without a change";
    if (!cached.erase(id)) cached.insert(id);
  };
  for (int step = 0; step < 30'000; ++step) {
    const uint64_t chunk = random() % 40;
    const uint64_t length = (chunk % 5) * kBlock + 1 + chunk * 100;
    const uint64_t block = random() % blocks_of(length);
    const size_t size = std::min(kBlock, length - block * kBlock);
    Model& known = model[chunk];
    const CachedCopy copy{chunk_id(chunk), known.generation, length};
    const std::vector<std::byte> right = CacheRig::content(chunk + known.generation, block, size);
    const uint64_t what = random() % 100;
    if (what < 3) {
      rig.cache.erase(chunk_id(chunk));
      known.may_be_here.clear();
      if (what == 0) ++known.generation;
    } else if (what < 5) {
      ++known.generation;  // without a word to the cache
      known.may_be_here.clear();
    } else {
      std::vector<std::byte> bytes(size);
      const bool user = what < 80;
      if (rig.copy(copy, block, bytes, user)) {
        ASSERT_EQ(bytes, right);
        ASSERT_TRUE(known.may_be_here.contains(block));
      } else if (user) {
        rig.cache.admit(copy, block, right);
        known.may_be_here.insert(block);
      }
    }
    if (step % 16 == 0) rig.pass(300ms);
    if (step % 128 == 0) rig.cache.drop_unread(rig.node.runtime().clock.now() - 1s);
    ASSERT_LE(rig.cache.memory_bytes(), rig.cache.capacity_bytes());
    ASSERT_EQ(rig.cache.cached_chunks(), cached.size());
  }
  rig.cache.clear();
  EXPECT_EQ(rig.cache.cached_bytes(), 0u);
  EXPECT_TRUE(cached.empty());
}

TEST(UsageProfile, HalvesEveryMinuteAndCountsPartsAsParts) {
  simulation::Simulation simulation(1);
  simulation::SimNode node(simulation, "server");
  UsageProfile usage(node.runtime().clock);
  for (int i = 0; i < 8; ++i)
    usage.read(chunk_id(1), 1);
  usage.read(chunk_id(2), 0.25);
  usage.read(chunk_id(2), 0.25);
  EXPECT_NEAR(usage.heat(chunk_id(1)), 8, 1e-6);
  EXPECT_NEAR(usage.heat(chunk_id(2)), 0.5, 1e-6);
  EXPECT_EQ(usage.heat(chunk_id(3)), 0);
  simulation.run_for(3min);
  EXPECT_NEAR(usage.heat(chunk_id(1)), 1, 1e-6);
  usage.read(chunk_id(2), 1);
  ASSERT_EQ(usage.hottest(1).size(), 1u);
  EXPECT_EQ(usage.hottest(1)[0].first, chunk_id(2));
  usage.forget(chunk_id(2));
  EXPECT_EQ(usage.hottest(10).size(), 1u);
}

TEST(UsageProfile, ForgetsTheColdestBeyondItsLimit) {
  simulation::Simulation simulation(1);
  simulation::SimNode node(simulation, "server");
  UsageProfile usage(node.runtime().clock, 100);
  for (int i = 0; i < 5; ++i)
    usage.read(chunk_id(1), 1);
  for (uint64_t chunk = 1000; chunk < 3000; ++chunk)
    usage.read(chunk_id(chunk), 1);
  EXPECT_EQ(usage.size(), 100u);
  EXPECT_NEAR(usage.heat(chunk_id(1)), 5, 1e-6);
  simulation.run_for(24h);
  usage.read(chunk_id(5000), 1);
  EXPECT_NEAR(usage.heat(chunk_id(5000)), 1, 1e-6);
}

}  // namespace
}  // namespace kintsugi::chunkserver

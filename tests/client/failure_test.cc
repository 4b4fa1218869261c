// Servers that are gone, break, hang, lag or lie, while the client reads and writes.
#include <algorithm>

#include <gtest/gtest.h>

#include "common/log/log.h"
#include "tests/client/fake_cluster.h"

namespace kintsugi::client {
namespace {

constexpr uint64_t kFileBytes = 2'500'000;  // several stripes, with short ends

TEST(DegradedRead, SurvivesTheLossOfAnyTwoServersOfRs32) {
  for (size_t a = 0; a < 8; ++a) {
    for (size_t b = a + 1; b < 8; b += 2) {
      SCOPED_TRACE(fmt::format("servers {} and {}", a, b));
      FakeCluster cluster(a * 8 + b);
      const auto bytes = random_bytes(kFileBytes, a);
      ASSERT_EQ(cluster.put("/f", bytes), Status{});
      cluster.kill(a);
      cluster.kill(b);
      if (b % 4 == 0) cluster.meta.known_dead = {a + 1, b + 1};
      const auto back = cluster.get("/f");
      ASSERT_TRUE(back) << back.error();
      EXPECT_TRUE(*back == bytes);
    }
  }
}

TEST(DegradedRead, ReadsSmallRangesOfALostChunkFromTheOthers) {
  FakeCluster cluster(1);
  const auto bytes = random_bytes(kFileBytes, 1);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  cluster.kill(cluster.holder("/f", 1));
  for (uint64_t offset = 60'000; offset < 300'000; offset += 7'777) {
    std::vector<std::byte> into(10'000);
    ASSERT_TRUE(cluster.run(cluster.client().read_at("/f", offset, into)));
    ASSERT_EQ(0, std::memcmp(into.data(), bytes.data() + offset, into.size())) << offset;
  }
}

TEST(DegradedRead, FailsAndNamesTheChunksWhenTooManyAreLost) {
  FakeCluster cluster(2, 5);
  const auto bytes = random_bytes(kFileBytes, 2);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  for (uint32_t index : {0u, 1u, 2u})
    cluster.kill(cluster.holder("/f", index));
  const auto back = cluster.get("/f");
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code(), Code::kUnavailable);
  EXPECT_NE(back.error().message().find("fewer than 3 of 5 chunks can be read"), std::string::npos)
      << back.error();
}

TEST(DegradedRead, NamesAServerThatIsGoneOnceByItsNameAndOnceByItsAddress) {
  FakeCluster cluster(2, 5);
  ASSERT_EQ(cluster.put("/f", random_bytes(kFileBytes, 2)), Status{});
  for (auto& [id, stripe] : cluster.meta.stripes)
    for (int i = 0; i < stripe.chunks_size(); ++i)
      stripe.mutable_chunks(i)->set_server_name(fmt::format("chunkserver-{}", stripe.chunks(i).server_id()));
  const size_t victim = cluster.holder("/f", 0);
  std::vector<std::string> lines;
  log::set_level(log::Level::kDebug);
  log::set_sink([&](log::Level, std::string_view line) { lines.emplace_back(line); });
  cluster.kill(victim);
  EXPECT_TRUE(cluster.get("/f"));
  log::set_sink({});
  log::set_level(log::Level::kError);
  const std::string name = fmt::format("chunkserver-{}", victim + 1);
  const auto line = std::ranges::find_if(lines, [&](const std::string& one) {
    return one.find(name) != one.npos && one.find("cannot connect to") != one.npos;
  });
  ASSERT_NE(line, lines.end());
  const std::string address = cluster.servers[victim]->address();
  EXPECT_EQ(line->find(address), line->rfind(address)) << *line;
  EXPECT_EQ(line->find(name), line->rfind(name)) << *line;
}

TEST(DegradedRead, NeverReturnsACorruptBlockAndReportsIt) {
  FakeCluster cluster(3);
  const auto bytes = random_bytes(kFileBytes, 3);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  const ChunkId victim = cluster.chunk("/f", 1);
  const size_t server = cluster.holder("/f", 1);
  ASSERT_TRUE(cluster.servers[server]->corrupt(victim, 100'000));
  EXPECT_TRUE(*cluster.get("/f") == bytes);
  cluster.simulation.run_for(1s);
  ASSERT_EQ(cluster.meta.reports.size(), 1u);
  EXPECT_EQ(cluster.meta.reports[0].stripe_id(), victim.stripe.value);
  EXPECT_EQ(cluster.meta.reports[0].index(), 1u);
  EXPECT_EQ(cluster.meta.reports[0].server_id(), server + 1);
  EXPECT_TRUE(cluster.meta.reports[0].corrupt());
}

TEST(DegradedRead, CatchesAChunkThatIsWholeButNotTheOneThatWasWritten) {
  FakeCluster cluster(4);
  const auto bytes = random_bytes(150'000, 4);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  // Another chunk with right block CRCs of its own, as a stale copy would have.
  FakeChunkServer& server = *cluster.servers[cluster.holder("/f", 0)];
  FakeChunkServer& other = *cluster.servers[cluster.holder("/f", 1)];
  ASSERT_EQ(server.chunks.at(cluster.chunk("/f", 0)).bytes.size(),
            other.chunks.at(cluster.chunk("/f", 1)).bytes.size());
  server.chunks.at(cluster.chunk("/f", 0)) = other.chunks.at(cluster.chunk("/f", 1));
  EXPECT_TRUE(*cluster.get("/f") == bytes);
  cluster.simulation.run_for(1s);
  EXPECT_EQ(cluster.meta.reports.size(), 1u);
}

TEST(DegradedRead, AsksWhereAChunkIsNowWhenItMoved) {
  FakeCluster cluster(5);
  cluster.meta.policy = "rs-2-0-64k";
  const auto bytes = random_bytes(100'000, 5);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  const ChunkId id = cluster.chunk("/f", 0);
  const size_t from = cluster.holder("/f", 0);
  const size_t to = cluster.holder("/f", 1) == 7 ? 6 : 7;
  cluster.servers[to]->chunks[id] = cluster.servers[from]->chunks[id];
  cluster.kill(from);
  // The metaserver learns of the new place only while the client already reads.
  const auto move = [&]() -> asio::awaitable<void> {
    runtime::TaskGroup group(cluster.simulation.executor(), cluster.simulation.clock());
    co_await group.sleep_for(50ms);
    cluster.meta.stripes.at(id.stripe.value).mutable_chunks(0)->set_server_id(to + 1);
  };
  asio::co_spawn(cluster.simulation.executor(), move(), asio::detached);
  const auto back = cluster.get("/f");
  ASSERT_TRUE(back) << back.error();
  EXPECT_TRUE(*back == bytes);
}

TEST(Read, OfAFileThatWasWrittenAnewMeanwhileFailsInsteadOfMixingBoth) {
  FakeCluster cluster(5);
  cluster.meta.policy = "rs-2-0-64k";
  cluster.meta.chunk_bytes = 512 * 1024;  // extents so long are read piece by piece
  ASSERT_EQ(cluster.put("/f", random_bytes(2 << 20, 5)), Status{});
  FakeMetaServer::File& file = cluster.meta.files.at("/f");
  ASSERT_EQ(file.extents.size(), 2u);
  const proto::Stripe& first = cluster.meta.stripes.at(file.extents[0].stripe_id());
  proto::Stripe& second = cluster.meta.stripes.at(file.extents[1].stripe_id());
  const auto is_in_first = [&](uint64_t server) {
    return server == first.chunks(0).server_id() || server == first.chunks(1).server_id();
  };
  const uint32_t lost = is_in_first(second.chunks(0).server_id()) ? 1 : 0;
  proto::ChunkPlacement& moved = *second.mutable_chunks(static_cast<int>(lost));
  ASSERT_FALSE(is_in_first(moved.server_id())) << "what comes first can be read";
  uint64_t other = 1;
  while (is_in_first(other) || other == second.chunks(0).server_id() || other == second.chunks(1).server_id())
    ++other;
  const ChunkId id{StripeId{second.stripe_id()}, lost};
  cluster.servers[other - 1]->chunks[id] = cluster.servers[moved.server_id() - 1]->chunks[id];
  cluster.kill(moved.server_id() - 1);
  const auto write_anew = [&]() -> asio::awaitable<void> {
    runtime::TaskGroup group(cluster.simulation.executor(), cluster.simulation.clock());
    co_await group.sleep_for(50ms);
    moved.set_server_id(other);
    file.attributes.set_modified_ns(file.attributes.modified_ns() + 1);
  };
  asio::co_spawn(cluster.simulation.executor(), write_anew(), asio::detached);
  const auto back = cluster.get("/f");
  ASSERT_FALSE(back) << "the first half is of before, the second half of after";
  EXPECT_EQ(back.error().code(), Code::kConflict) << back.error();
}

TEST(SmallFile, IsReadFromAnotherCopyWhenOneIsCorruptGoneOrHangs) {
  for (int fault = 0; fault < 3; ++fault) {
    SCOPED_TRACE(fault);
    FakeCluster cluster(60 + static_cast<uint64_t>(fault));
    const auto bytes = random_bytes(4096, 6);
    ASSERT_EQ(cluster.put("/f", bytes), Status{});
    FakeChunkServer& server = *cluster.servers[cluster.holder("/f", 0)];
    if (fault == 0) server.corrupt(cluster.chunk("/f", 0), 100);
    if (fault == 1) server.chunks.clear();
    if (fault == 2) server.hangs = true;
    const TimePoint began = cluster.simulation.now();
    EXPECT_TRUE(*cluster.get("/f") == bytes);
    EXPECT_LT(cluster.simulation.now() - began, 2s);
    cluster.simulation.run_for(1s);
    EXPECT_EQ(cluster.meta.reports.size(), fault < 2 ? 1u : 0u);
  }
}

TEST(SmallFile, ThatIsNotTheOneThatWasWrittenIsReadFromAnotherCopy) {
  FakeCluster cluster(63);
  const auto bytes = random_bytes(4096, 1);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  auto& chunk = cluster.servers[cluster.holder("/f", 0)]->chunks.at(cluster.chunk("/f", 0));
  chunk.bytes = random_bytes(4096, 2);
  chunk.block_crcs = crc32c_blocks(chunk.bytes);
  EXPECT_TRUE(*cluster.get("/f") == bytes);
  cluster.simulation.run_for(1s);
  EXPECT_EQ(cluster.meta.reports.size(), 1u);
}

TEST(SmallFile, IsWrittenWholeWhenServersFail) {
  FakeCluster cluster(64);
  cluster.servers[0]->fail_write_at = 0;
  cluster.kill(1);
  const auto bytes = random_bytes(4096, 1);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  for (const proto::ChunkPlacement& chunk : cluster.meta.stripes.begin()->second.chunks()) {
    ASSERT_GT(chunk.server_id(), 2u) << "chunk " << chunk.index();
    const auto& chunks = cluster.servers[chunk.server_id() - 1]->chunks;
    EXPECT_TRUE(chunks.at(cluster.chunk("/f", chunk.index())).bytes == bytes) << "chunk " << chunk.index();
  }
}

TEST(SmallFile, IsWrittenWithoutTheCopyOfAServerThatHangs) {
  FakeCluster cluster(65);
  cluster.servers[0]->hangs = true;
  const TimePoint began = cluster.simulation.now();
  const auto bytes = random_bytes(4096, 1);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  EXPECT_LT(cluster.simulation.now() - began, 2s);
  size_t missing = 0;
  for (const proto::ChunkPlacement& chunk : cluster.meta.stripes.begin()->second.chunks())
    missing += chunk.server_id() == 0;
  EXPECT_EQ(missing, 1u);
  EXPECT_TRUE(*cluster.get("/f") == bytes);
}

TEST(SmallFile, ThatCannotBeWrittenLeavesNothingAndIsAborted) {
  FakeCluster cluster(66, 5);
  for (const auto& server : cluster.servers)
    server->fail_write_at = 0;
  EXPECT_EQ(cluster.put("/f", random_bytes(4096, 1)).code(), Code::kUnavailable);
  EXPECT_TRUE(cluster.meta.files.empty());
  EXPECT_EQ(cluster.meta.aborts, 1);
}

TEST(Hedge, DoesNotWaitForAServerThatHangs) {
  FakeCluster cluster(6);
  const auto bytes = random_bytes(kFileBytes, 6);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  cluster.servers[cluster.holder("/f", 0)]->hangs = true;
  const TimePoint began = cluster.simulation.now();
  EXPECT_TRUE(*cluster.get("/f") == bytes);
  EXPECT_LT(cluster.simulation.now() - began, 3s);
}

TEST(Hedge, ReplacesAServerThatLagsFarBehindTheOthers) {
  FakeCluster cluster(7);
  const auto bytes = random_bytes(kFileBytes, 7);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(cluster.get("/f"));  // learns what is normal
  cluster.servers[cluster.holder("/f", 0)]->read_delay = 20s;
  const TimePoint began = cluster.simulation.now();
  EXPECT_TRUE(*cluster.get("/f") == bytes);
  EXPECT_LT(cluster.simulation.now() - began, 2s);
}

TEST(Hedge, LeavesServersAloneThatAreAllEquallySlow) {
  FakeCluster cluster(8);
  const auto bytes = random_bytes(190'000, 8);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  for (auto& server : cluster.servers)
    server->read_delay = 300ms;
  EXPECT_TRUE(*cluster.get("/f") == bytes);
  uint64_t reads = 0;
  for (auto& server : cluster.servers)
    reads += server->reads;
  EXPECT_EQ(reads, 3u);
}

TEST(Write, ReplacesAServerThatCannotBeReachedBeforeTheFirstByte) {
  FakeCluster cluster(9);
  const auto bytes = random_bytes(kFileBytes, 9);
  cluster.kill(2);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  EXPECT_GT(cluster.meta.replacements, 0);
  for (const auto& [id, stripe] : cluster.meta.stripes) {
    for (const proto::ChunkPlacement& chunk : stripe.chunks()) {
      EXPECT_NE(chunk.server_id(), 0u) << "chunk " << id << ":" << chunk.index();
      EXPECT_NE(chunk.server_id(), 3u) << "chunk " << id << ":" << chunk.index();
    }
  }
  EXPECT_TRUE(*cluster.get("/f") == bytes);
}

TEST(Write, GoesOnWithoutAServerThatBreaksAndRecordsTheChunkAsMissing) {
  FakeCluster cluster(10);
  cluster.meta.policy = "rs-3-3-64k";
  cluster.meta.chunk_bytes = 4 << 20;
  const auto bytes = random_bytes(10'000'000, 10);
  cluster.servers[1]->fail_write_at = 2'000'000;
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  const proto::Stripe& stripe = cluster.meta.stripes.at(cluster.chunk("/f", 0).stripe.value);
  const auto missing =
      std::find_if(stripe.chunks().begin(), stripe.chunks().end(),
                   [](const proto::ChunkPlacement& chunk) { return chunk.server_id() == 0; });
  ASSERT_NE(missing, stripe.chunks().end());
  EXPECT_NE(missing->crc(), 0u) << "a repair proves itself by the CRC of what was written";
  EXPECT_EQ(cluster.meta.allocations, 1);
  EXPECT_TRUE(*cluster.get("/f") == bytes);
}

TEST(Write, PutsTheNextStripeElsewhereThoughItWasAllocatedBeforeTheServerBroke) {
  FakeCluster cluster(26);
  cluster.meta.policy = "rs-3-3-64k";
  cluster.meta.chunk_bytes = 16 << 20;
  const auto bytes = random_bytes(60'000'000, 26);
  cluster.servers[1]->fail_write_at = 2'000'000;  // it takes new calls, and would break again
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  int missing = 0;
  for (const auto& [id, stripe] : cluster.meta.stripes) {
    for (const proto::ChunkPlacement& chunk : stripe.chunks())
      missing += chunk.server_id() == 0;
  }
  EXPECT_EQ(missing, 1);
  EXPECT_GT(cluster.meta.replacements, 0);
  EXPECT_TRUE(*cluster.get("/f") == bytes);
}

TEST(Write, UsesAServerThatFailedLatelyWhenNoOtherIsLeft) {
  FakeCluster cluster(27, 5);
  const auto bytes = random_bytes(kFileBytes, 27);
  cluster.servers[1]->fail_write_at = 200'000;
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  cluster.servers[1]->fail_write_at = UINT64_MAX;
  const auto more = random_bytes(150'000, 28);  // within the time for which the server is avoided
  ASSERT_EQ(cluster.put("/g", more), Status{});
  for (uint32_t index = 0; index < 5; ++index)
    EXPECT_LT(cluster.holder("/g", index), 5u);
  EXPECT_TRUE(*cluster.get("/g") == more);
}

TEST(Write, GoesOnSoonWithoutAServerThatFallsSilent) {
  for (const size_t size : {700'000ul, 40'000ul}) {  // coded, and copies
    FakeCluster cluster(23, 5);
    const auto bytes = random_bytes(size, 23);
    cluster.servers[0]->hangs = true;
    const TimePoint began = cluster.simulation.now();
    ASSERT_EQ(cluster.put("/f", bytes), Status{});
    EXPECT_LT(cluster.simulation.now() - began, 8s);
    const auto& chunks = cluster.meta.stripes.begin()->second.chunks();
    const auto missing = std::count_if(chunks.begin(), chunks.end(), [](const proto::ChunkPlacement& chunk) {
      return chunk.server_id() == 0;
    });
    EXPECT_EQ(missing, 1);
    EXPECT_TRUE(*cluster.get("/f") == bytes);
  }
}

TEST(Write, IsPatientWhenMoreServersAreSilentThanItCanDoWithout) {
  FakeCluster cluster(24, 5);
  const auto bytes = random_bytes(700'000, 24);
  cluster.servers[0]->hangs = cluster.servers[1]->hangs = true;
  const TimePoint began = cluster.simulation.now();
  EXPECT_FALSE(cluster.put("/f", bytes).ok());
  EXPECT_GT(cluster.simulation.now() - began, 20s);
}

TEST(Write, AsksNoServerToKeepAnEmptyChunk) {
  FakeCluster cluster(25, 5);
  const auto bytes = random_bytes(70'000, 25);  // two of three data chunks of a row
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  size_t stored = 0;
  for (const auto& server : cluster.servers)
    stored += server->chunks.size();
  EXPECT_EQ(stored, 4u);
  const proto::Stripe& stripe = cluster.meta.stripes.begin()->second;
  EXPECT_EQ(stripe.chunks(2).length(), 0u);
  EXPECT_EQ(stripe.chunks(2).server_id(), 0u);
  EXPECT_TRUE(*cluster.get("/f") == bytes);
  cluster.kill(cluster.holder("/f", 0));
  cluster.kill(cluster.holder("/f", 1));
  EXPECT_TRUE(*cluster.get("/f") == bytes);
}

TEST(Write, WritesTheStripeAgainElsewhereWhenTooManyServersBreak) {
  FakeCluster cluster(11, 9);
  cluster.meta.policy = "rs-3-1-64k";  // a missing chunk would leave no redundancy
  cluster.meta.chunk_bytes = 4 << 20;
  const auto bytes = random_bytes(8'000'000, 11);
  cluster.servers[1]->fail_write_at = 1'500'000;
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  for (const auto& extent : cluster.meta.files.at("/f").extents) {
    for (const auto& chunk : cluster.meta.stripes.at(extent.stripe_id()).chunks())
      EXPECT_NE(chunk.server_id(), 0u);
  }
  EXPECT_TRUE(*cluster.get("/f") == bytes);
}

TEST(Write, FailsAndLeavesNothingWhenASourceThatCannotSeekLosesItsStripe) {
  FakeCluster cluster(12, 4);
  cluster.meta.policy = "rs-3-1-64k";
  cluster.meta.chunk_bytes = 4 << 20;
  const auto bytes = random_bytes(8'000'000, 12);
  cluster.servers[1]->fail_write_at = 1'500'000;
  PipeSource pipe(bytes);
  const auto written = cluster.run(cluster.client().write("/f", pipe));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code(), Code::kUnavailable);
  EXPECT_FALSE(cluster.meta.files.contains("/f"));
  EXPECT_EQ(cluster.meta.aborts, 1);
}

TEST(Write, FailsWhenTheSourceShrinksMeanwhile) {
  class Shrinking : public MemorySource {
   public:
    using MemorySource::MemorySource;
    std::optional<uint64_t> size() const override { return 1'000'000; }
  };
  FakeCluster cluster(13);
  const auto bytes = random_bytes(600'000, 13);
  Shrinking source(bytes);
  const auto written = cluster.run(cluster.client().write("/f", source));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code(), Code::kConflict);
  EXPECT_FALSE(cluster.meta.files.contains("/f"));
}

TEST(Metaserver, MayBeAwayForAWhile) {
  FakeCluster cluster(14);
  const auto bytes = random_bytes(kFileBytes, 14);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  cluster.simulation.network().isolate("meta");
  const auto heal = [&]() -> asio::awaitable<void> {
    runtime::TaskGroup group(cluster.simulation.executor(), cluster.simulation.clock());
    co_await group.sleep_for(8s);
    cluster.simulation.network().rejoin("meta");
  };
  asio::co_spawn(cluster.simulation.executor(), heal(), asio::detached);
  EXPECT_TRUE(cluster.run(cluster.client().stat("/f")));
  EXPECT_EQ(cluster.put("/g", bytes), Status{});
}

TEST(Metaserver, ThatNeverAnswersIsGivenUpInBoundedTime) {
  FakeCluster cluster(15);
  cluster.simulation.network().isolate("meta");
  const TimePoint began = cluster.simulation.now();
  const auto found = cluster.run(cluster.client().stat("/f"));
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message().find("does not answer"), std::string::npos) << found.error();
  EXPECT_LT(cluster.simulation.now() - began, 90s);
}

TEST(Metaserver, VerdictThatTooFewServersAreLeftIsNotWaitedOut) {
  FakeCluster cluster(16, 4);
  const TimePoint began = cluster.simulation.now();
  const auto bytes = random_bytes(kFileBytes, 16);
  const Status status = cluster.put("/f", bytes);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(status.message().find("does not answer"), std::string::npos) << status;
  EXPECT_LT(cluster.simulation.now() - began, 5s);
}

}  // namespace
}  // namespace kintsugi::client

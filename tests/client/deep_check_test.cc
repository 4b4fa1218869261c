// Reading every chunk where it lies: what is damaged is told, what is repaired is waited for.
#include <gtest/gtest.h>

#include "common/base/crc32c.h"
#include "tests/client/fake_cluster.h"
#include "tests/expect_ok.h"

namespace kintsugi::client {
namespace {

constexpr size_t kSize = 1'500'000;  // several stripes of rs-3-2-64k

class DeepCheck : public testing::Test {
 protected:
  DeepCheck() {
    cluster.meta.believes_reports = true;
    cluster.meta.looks_until_repaired = 3;
    KINTSUGI_EXPECT_OK(cluster.put("/a", random_bytes(kSize, 1)));
    KINTSUGI_EXPECT_OK(cluster.put("/b", random_bytes(kSize, 2)));
    for (const auto& [id, stripe] : cluster.meta.stripes) {
      for (const proto::ChunkPlacement& chunk : stripe.chunks()) {
        chunks += chunk.length() > 0;
        bytes += chunk.length();
      }
    }
  }

  DeepCheckReport check(DeepCheckOptions options = {}) {
    options.progress = [this](const DeepCheckProgress& now) {
      last = now;
      if (now.waiting) waited_for = std::max(waited_for, now.damaged - now.settled);
    };
    auto report = cluster.run(cluster.client().deep_check("/", std::move(options)));
    KINTSUGI_EXPECT_OK(report ? Status{} : report.error());
    return report ? std::move(*report) : DeepCheckReport{};
  }
  FakeChunkServer& holder(const std::string& path, uint32_t index) {
    return *cluster.servers[cluster.holder(path, index)];
  }
  size_t chunks_on(uint64_t server) {
    size_t count = 0;
    for (const auto& [id, stripe] : cluster.meta.stripes) {
      for (const proto::ChunkPlacement& chunk : stripe.chunks())
        count += chunk.length() > 0 && chunk.server_id() == server;
    }
    return count;
  }

  FakeCluster cluster{1};
  uint64_t chunks = 0, bytes = 0;  ///< of both files
  uint64_t waited_for = 0;         ///< chunks, at most, after everything was read
  DeepCheckProgress last;
};

TEST_F(DeepCheck, EveryCheckGoesOnInsideOfTheFileWhereAPageEnded) {
  uint64_t checked = 0;
  proto::FsckResponse page;
  do {
    auto next = cluster.run(cluster.client().fsck("/", page));
    ASSERT_TRUE(next) << next.error();
    page = std::move(*next);
    checked += page.stored_chunks();
  } while (page.more());
  EXPECT_EQ(checked, chunks);
}

TEST_F(DeepCheck, ReadsEveryChunkOfEveryFileParityToo) {
  const DeepCheckReport report = check();
  EXPECT_TRUE(report.whole());
  EXPECT_EQ(report.chunks_read, chunks);
  EXPECT_EQ(report.bytes_read, bytes);
  EXPECT_EQ(report.chunks_damaged(), 0u);
  EXPECT_EQ(last.total_chunks, chunks);
  EXPECT_EQ(last.total_bytes, bytes);
  EXPECT_EQ(last.chunks, chunks);
  EXPECT_EQ(last.bytes, bytes);
  EXPECT_TRUE(cluster.meta.reports.empty());
  for (const auto& server : cluster.servers) {
    size_t asked = 0;
    for (const auto& request : server->verifications)
      asked += static_cast<size_t>(request.chunks_size());
    EXPECT_EQ(asked, chunks_on(server->id));
    EXPECT_EQ(server->reads, 0u) << "no bytes travel";
  }
}

TEST_F(DeepCheck, HandsTheRateToEachServerAndAsksForLittleAtATime) {
  DeepCheckOptions options;
  options.bytes_per_second = 64 << 10;
  EXPECT_TRUE(check(std::move(options)).whole());
  for (const auto& server : cluster.servers)
    for (const auto& request : server->verifications)
      EXPECT_EQ(request.bytes_per_second(), 64u << 10);
}

TEST_F(DeepCheck, TellsOfDamageInDataAndParityAndWaitsForTheRepair) {
  const ChunkId data = cluster.chunk("/a", 1), parity = cluster.chunk("/b", 4);
  ASSERT_TRUE(holder("/a", 1).corrupt(data, 10'000));
  ASSERT_TRUE(holder("/b", 4).corrupt(parity, 20'000));
  const DeepCheckReport report = check();
  EXPECT_TRUE(report.whole());
  EXPECT_EQ(report.chunks_read, chunks);
  ASSERT_EQ(report.damaged.size(), 2u);
  for (const DamagedChunk& chunk : report.damaged) {
    EXPECT_EQ(chunk.damage, Damage::kCorrupt);
    EXPECT_EQ(chunk.mending, Mending::kRepaired);
    EXPECT_EQ(chunk.id, chunk.path == "/a" ? data : parity);
    EXPECT_EQ(chunk.server.value, cluster.holder(chunk.path, chunk.id.index) + 1);
  }
  ASSERT_EQ(cluster.meta.reports.size(), 2u);
  for (const proto::ReportChunkRequest& told : cluster.meta.reports)
    EXPECT_TRUE(told.corrupt());
  EXPECT_TRUE(cluster.meta.lost.empty()) << "it returned before they were whole again";
  EXPECT_EQ(last.damaged, 2u);
  EXPECT_EQ(last.settled, 2u);
  EXPECT_EQ(waited_for, 2u)
      << "whoever watches is told that everything is read, and what the command waits for";
}

TEST_F(DeepCheck, FindsChunksThatAreMissingAndChunksOfOtherBytes) {
  const ChunkId missing = cluster.chunk("/a", 0), other = cluster.chunk("/b", 0);
  holder("/a", 0).chunks.erase(missing);
  FakeChunkServer::Chunk& replaced = holder("/b", 0).chunks.at(other);
  replaced.bytes = random_bytes(replaced.bytes.size(), 77);
  replaced.block_crcs = crc32c_blocks(replaced.bytes);
  const DeepCheckReport report = check();
  EXPECT_TRUE(report.whole());
  ASSERT_EQ(report.damaged.size(), 2u);
  for (const DamagedChunk& chunk : report.damaged)
    EXPECT_EQ(chunk.damage, chunk.id == missing ? Damage::kMissing : Damage::kOther);
  ASSERT_EQ(cluster.meta.reports.size(), 2u);
  for (const proto::ReportChunkRequest& told : cluster.meta.reports)
    EXPECT_EQ(told.corrupt(), told.stripe_id() == other.stripe.value);
}

TEST_F(DeepCheck, SaysWhatIsNotRepairedAndWhy) {
  cluster.meta.looks_until_repaired.reset();
  const ChunkId victim = cluster.chunk("/a", 2);
  ASSERT_TRUE(holder("/a", 2).corrupt(victim, 1));
  proto::RepairRecord& record = cluster.meta.history.emplace_back();
  record.set_stripe_id(victim.stripe.value);
  record.set_index(victim.index);
  record.set_outcome(proto::RepairRecord::FAILED);
  record.set_detail("no server has room");
  const TimePoint began = cluster.simulation.now();
  DeepCheckOptions options;
  options.patience = 20s;
  const DeepCheckReport report = check(std::move(options));
  EXPECT_FALSE(report.whole());
  ASSERT_EQ(report.damaged.size(), 1u);
  EXPECT_EQ(report.damaged[0].mending, Mending::kWaiting);
  EXPECT_EQ(report.damaged[0].obstacle, "no server has room");
  EXPECT_GE(cluster.simulation.now() - began, 20s);
  EXPECT_LT(cluster.simulation.now() - began, 25s);
}

TEST_F(DeepCheck, DoesNotWaitForWhatCannotBeRebuilt) {
  cluster.meta.looks_until_repaired.reset();
  for (uint32_t index : {0u, 2u, 4u})
    ASSERT_TRUE(holder("/a", index).corrupt(cluster.chunk("/a", index), 1));
  const TimePoint began = cluster.simulation.now();
  const DeepCheckReport report = check();
  EXPECT_FALSE(report.whole());
  EXPECT_EQ(report.count(Mending::kTooFewLeft), 3u);
  EXPECT_LT(cluster.simulation.now() - began, 5s);
}

TEST_F(DeepCheck, AFileThatIsRemovedMeanwhileIsNoDamage) {
  // Its stripes are listed, its chunks are gone, and the metaserver knows nothing of them any more.
  const uint64_t stripe = cluster.chunk("/a", 0).stripe.value;
  for (const auto& server : cluster.servers)
    std::erase_if(server->chunks, [&](const auto& entry) { return entry.first.stripe.value == stripe; });
  DeepCheckOptions options;
  bool removed = false;
  options.progress = [&](const DeepCheckProgress& now) {
    if (now.chunks > 0 && !std::exchange(removed, true)) cluster.meta.stripes.erase(stripe);
  };
  const auto report = cluster.run(cluster.client().deep_check("/", std::move(options)));
  ASSERT_TRUE(report) << report.error();
  EXPECT_TRUE(removed);
  EXPECT_TRUE(report->whole());
  for (const DamagedChunk& chunk : report->damaged)
    EXPECT_EQ(chunk.mending, Mending::kGone);
}

TEST_F(DeepCheck, GivesAServerUpThatDoesNotAnswerAndChecksTheOthers) {
  const size_t victim = cluster.holder("/a", 3);
  const size_t held = chunks_on(victim + 1);
  cluster.kill(victim);
  const TimePoint began = cluster.simulation.now();
  const DeepCheckReport report = check();
  EXPECT_FALSE(report.whole());
  EXPECT_EQ(report.chunks_read, chunks - held);
  ASSERT_EQ(report.unread.size(), 1u);
  EXPECT_EQ(report.unread[0].server.value, victim + 1);
  EXPECT_EQ(report.unread[0].address, cluster.servers[victim]->address());
  EXPECT_EQ(report.unread[0].chunks, held);
  EXPECT_EQ(report.unread[0].why.code(), Code::kUnavailable);
  EXPECT_EQ(report.chunks_damaged(), 0u) << "nothing is known against them";
  EXPECT_LT(cluster.simulation.now() - began, 30s);
}

TEST_F(DeepCheck, LooksForChunksOfAServerThatDiedWhereTheyAreNow) {
  const ChunkId moved = cluster.chunk("/a", 3);
  const size_t from = cluster.holder("/a", 3);
  proto::Stripe& stripe = cluster.meta.stripes.at(moved.stripe.value);
  std::set<uint64_t> used;
  for (const proto::ChunkPlacement& chunk : stripe.chunks())
    used.insert(chunk.server_id());
  uint64_t to = 1;
  while (used.contains(to))
    ++to;
  cluster.servers[to - 1]->chunks[moved] = cluster.servers[from]->chunks.at(moved);
  cluster.servers[from]->hangs = true;
  DeepCheckOptions options;
  bool happened = false;
  options.progress = [&](const DeepCheckProgress& now) {
    if (now.chunks == 0 || std::exchange(happened, true)) return;
    cluster.kill(from);
    stripe.mutable_chunks(3)->set_server_id(to);
  };
  const auto report = cluster.run(cluster.client().deep_check("/", std::move(options)));
  ASSERT_TRUE(report) << report.error();
  size_t asked = 0;
  for (const auto& request : cluster.servers[to - 1]->verifications)
    for (const auto& chunk : request.chunks())
      asked += chunk.stripe_id() == moved.stripe.value;
  EXPECT_EQ(asked, 1u);
  EXPECT_EQ(report->chunks_damaged(), 0u);
}

TEST_F(DeepCheck, GoesOnBehindTheVerdictsThatABrokenCallBrought) {
  const size_t breaks = cluster.holder("/a", 0);
  cluster.servers[breaks]->fail_verify_at = 1;
  const DeepCheckReport report = check();
  EXPECT_TRUE(report.whole());
  EXPECT_EQ(report.chunks_read, chunks);
  EXPECT_GT(cluster.servers[breaks]->verifications.size(), 1u);
}

TEST_F(DeepCheck, ChunksOfDeadServersAreMissingAndNotWaitedFor) {
  const size_t victim = cluster.holder("/a", 0);
  const size_t held = chunks_on(victim + 1);
  cluster.kill(victim);
  cluster.meta.known_dead.insert(victim + 1);
  const DeepCheckReport report = check();
  EXPECT_EQ(report.chunks_missing, held);
  EXPECT_EQ(report.chunks_read, chunks - held);
  EXPECT_TRUE(report.unread.empty());
}

TEST_F(DeepCheck, EndsAtOnceWhenItIsCancelled) {
  for (const auto& server : cluster.servers)
    server->hangs = true;
  std::optional<Result<DeepCheckReport>> report;
  runtime::TaskGroup tasks(cluster.simulation.executor(), cluster.simulation.clock());
  auto background = [](Client& client, std::optional<Result<DeepCheckReport>>& out) -> asio::awaitable<void> {
    out = co_await client.deep_check("/");
  };
  tasks.spawn(background(cluster.client(), report));
  cluster.simulation.run_for(2s);
  ASSERT_FALSE(report);
  cluster.client().cancel();
  cluster.simulation.run_for(1s);
  ASSERT_TRUE(report) << "it should have ended";
  ASSERT_FALSE(*report);
  EXPECT_EQ(report->error().code(), Code::kCancelled);
  cluster.run(tasks.join());
}

}  // namespace
}  // namespace kintsugi::client

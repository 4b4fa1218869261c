// Reads of lost chunks by trees, with the client as the repair site.
#include "client/lib/degraded/degraded_read.h"

#include <random>

#include <gtest/gtest.h>

#include "client/lib/degraded/plan_run.h"
#include "common/base/crc32c.h"
#include "common/proto/names.h"
#include "tests/client/fake_cluster.h"
#include "tests/expect_ok.h"

namespace kintsugi::client {
namespace {

/// Collects bytes in order, and the times when they came.
class TimedCollector final : public Sink {
 public:
  explicit TimedCollector(simulation::Simulation& simulation) : simulation_(simulation) {}
  asio::awaitable<Status> write(uint64_t offset, std::span<const std::span<const std::byte>> from) override {
    if (bytes.empty()) begin = offset;
    EXPECT_EQ(offset, begin + bytes.size());
    for (const auto& range : from)
      bytes.insert(bytes.end(), range.begin(), range.end());
    times.push_back(simulation_.now());
    co_return Status{};
  }
  uint64_t begin = 0;
  std::vector<std::byte> bytes;
  std::vector<TimePoint> times;

 private:
  simulation::Simulation& simulation_;
};

/// A cluster with one file.
struct Rig {
  explicit Rig(uint64_t seed, uint64_t size = 700'000, const char* policy = "rs-3-2-64k",
               uint64_t chunk_bytes = 256 * 1024)
      : cluster(seed, 17), bytes(random_bytes(size, seed)), sink(cluster.simulation) {
    cluster.meta.policy = policy;
    cluster.meta.chunk_bytes = chunk_bytes;
    EXPECT_EQ(cluster.put("/f", bytes), Status{});
  }

  const std::vector<std::byte>& chunk(uint32_t index) {
    return holder(index).chunks.at(cluster.chunk("/f", index)).bytes;
  }
  FakeChunkServer& holder(uint32_t index) { return *cluster.servers[cluster.holder("/f", index)]; }
  Result<DegradedReadReport> read(uint32_t index, LostReadOptions options) {
    sink.bytes.clear();
    sink.times.clear();
    return cluster.run(cluster.client().read_lost_chunk(cluster.chunk("/f", 0).stripe.value, index, sink,
                                                        std::move(options)));
  }
  bool got(uint32_t index, uint64_t begin, uint64_t end) {
    const auto& whole = chunk(index);
    return sink.bytes.size() == end - begin &&
           std::equal(sink.bytes.begin(), sink.bytes.end(), whole.begin() + static_cast<ptrdiff_t>(begin));
  }
  uint64_t reads() const {
    uint64_t sum = 0;
    for (const auto& server : cluster.servers)
      sum += server->reads;
    return sum;
  }
  uint64_t sums() const {
    uint64_t sum = 0;
    for (const auto& server : cluster.servers)
      sum += server->sums;
    return sum;
  }

  FakeCluster cluster;
  std::vector<std::byte> bytes;
  TimedCollector sink;
};

/// The shape of a tree, or none for "local": fetched and decoded by the reader.
std::optional<proto::RepairShape> tree_of(std::string_view shape) {
  if (shape == "local") return std::nullopt;
  return proto::parse_shape(shape).value();
}

LostReadOptions options(const char* shape, uint64_t offset = 0, uint64_t length = 0) {
  LostReadOptions result;
  result.shape = tree_of(shape);
  result.offset = offset;
  result.length = length;
  return result;
}

TEST(LostChunk, RangesAroundTheBordersOfBlocksAreTheBytesThatWereWritten) {
  Rig rig(1);
  const uint64_t length = rig.chunk(1).size();
  const std::vector<uint64_t> borders{0, 1, 65'535, 65'536, 65'537, 131'072, length - 1, length};
  for (const char* shape : {"star", "chain", "local"}) {
    for (const uint32_t index : {1u, 4u}) {  // data and parity
      for (const uint64_t begin : borders) {
        for (const uint64_t end : borders) {
          if (begin >= end) continue;
          SCOPED_TRACE(fmt::format("{} of chunk {}, {} to {}", shape, index, begin, end));
          const auto report = rig.read(index, options(shape, begin, end - begin));
          ASSERT_TRUE(report) << report.error();
          EXPECT_TRUE(rig.got(index, begin, end));
          EXPECT_EQ(report->shape, tree_of(shape));
          EXPECT_EQ(report->bytes, end - begin);
        }
      }
    }
  }
  EXPECT_FALSE(rig.read(1, options("star", length)));
  EXPECT_FALSE(rig.read(5, options("star")));
}

TEST(LostChunk, OfAServerThatLivesIsNotAskedForItself) {
  Rig rig(2);
  ASSERT_TRUE(rig.read(0, options("chain")));
  ASSERT_TRUE(rig.read(0, options("local")));
  EXPECT_EQ(rig.holder(0).sums, 0u);
  EXPECT_EQ(rig.holder(0).reads, 0u);
}

TEST(LostChunk, ItsFirstBytesAreThereBeforeTheLastSliceWasSent) {
  Rig rig(3);
  for (auto& server : rig.cluster.servers)
    server->sum_delay = 100ms;
  const auto report = rig.read(0, options("chain"));
  ASSERT_TRUE(report) << report.error();
  const size_t slices = (rig.chunk(0).size() + kBlockBytes - 1) / kBlockBytes;
  ASSERT_GE(slices, 3u);
  // Every server sends a slice each 100 ms; three in a row fill the pipeline.
  EXPECT_LT(report->first_byte_seconds, 0.5);
  EXPECT_GT(report->seconds, report->first_byte_seconds + 0.1 * static_cast<double>(slices - 1) - 0.01);
  EXPECT_LT(rig.sink.times.front() + (slices - 2) * 100ms, rig.sink.times.back());
}

TEST(LostChunk, WithAHelperThatBreaksIsReadOnByAnotherPlanWithoutIt) {
  Rig rig(4);
  const uint64_t culprit = rig.holder(2).id;
  rig.holder(2).fail_sum_at = 2 * kBlockBytes;
  for (const char* shape : {"star", "chain"}) {
    SCOPED_TRACE(shape);
    rig.cluster.meta.plan_requests.clear();
    const auto report = rig.read(0, options(shape));
    ASSERT_TRUE(report) << report.error();
    EXPECT_TRUE(rig.got(0, 0, rig.chunk(0).size()));
    EXPECT_EQ(report->plans, 2u);
    ASSERT_EQ(rig.cluster.meta.plan_requests.size(), 2u);
    const auto& second = rig.cluster.meta.plan_requests[1];
    EXPECT_NE(std::find(second.exclude().begin(), second.exclude().end(), culprit), second.exclude().end());
    EXPECT_GT(second.offset(), 0u) << "what was there is not read again";
    rig.cluster.simulation.run_for(10s);  // the client forgets
  }
}

TEST(LostChunk, IsDecodedHereWhenAHelperDeepInTheTreeHangs) {
  Rig rig(5);
  rig.holder(3).sums_hang = true;  // the end of the chain
  const TimePoint began = rig.cluster.simulation.now();
  const auto report = rig.read(0, options("chain"));
  ASSERT_TRUE(report) << report.error();
  EXPECT_TRUE(rig.got(0, 0, rig.chunk(0).size()));
  EXPECT_EQ(report->shape, std::nullopt);
  EXPECT_NE(report->trouble, "");
  EXPECT_LT(rig.cluster.simulation.now() - began, PlanRun::kStallLimit + 3s);
}

TEST(LostChunk, IsDecodedHereWhenNobodyPlansUnlessThatIsNotWanted) {
  Rig rig(6);
  rig.cluster.meta.plans_reads = false;
  const auto report = rig.read(0, options("auto"));
  ASSERT_TRUE(report) << report.error();
  EXPECT_TRUE(rig.got(0, 0, rig.chunk(0).size()));
  EXPECT_EQ(report->shape, std::nullopt);
  LostReadOptions only_tree = options("auto");
  only_tree.fall_back = false;
  const auto refused = rig.read(0, only_tree);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kUnavailable);
}

TEST(LostChunk, ThatComesOutWrongIsFoundByTheCrcOfTheWholeChunk) {
  Rig rig(7);
  rig.cluster.meta.wrong_coefficient = true;
  const auto report = rig.read(0, options("chain"));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code(), Code::kCorrupt);
}

TEST(LostChunk, TheRepairManagerIsToldHowThePlanWent) {
  Rig rig(8);
  ASSERT_TRUE(rig.read(0, options("chain")));
  rig.holder(2).fail_sum_at = 0;
  ASSERT_TRUE(rig.read(0, options("chain")));
  rig.cluster.simulation.run_for(1s);
  const auto& told = rig.cluster.meta.finished_reads;
  ASSERT_EQ(told.size(), 3u);
  EXPECT_TRUE(told[0].ok());
  EXPECT_EQ(told[0].timing().bytes_in(), rig.chunk(0).size());
  EXPECT_GE(told[0].servers_size(), 1);
  EXPECT_FALSE(told[1].ok());
  EXPECT_NE(told[1].detail().find(fmt::format("server {}", rig.holder(2).id)), std::string::npos)
      << told[1].detail();
  EXPECT_TRUE(told[2].ok());
}

TEST(LostChunk, AFailureAfterItsLastByteCostsNothing) {
  Rig rig(9);
  rig.holder(1).fail_sum_at = rig.chunk(0).size();  // the end of its stream breaks
  LostReadOptions only_tree = options("chain");
  only_tree.fall_back = false;
  const auto report = rig.read(0, only_tree);
  ASSERT_TRUE(report) << report.error();
  EXPECT_TRUE(rig.got(0, 0, rig.chunk(0).size()));
  EXPECT_EQ(report->plans, 1u);
  EXPECT_EQ(rig.cluster.meta.plan_requests.size(), 1u);
}

/// Another client, whose resources the test can reach.
struct OpenClient {
  explicit OpenClient(Rig& rig)
      : rig(rig), node(rig.cluster.simulation, "other"), resources(node.runtime(), options_of(rig), {}) {}
  ~OpenClient() {
    resources.background.request_stop();
    rig.cluster.run(resources.rpc.stop());
    rig.cluster.run(resources.background.join());
  }
  static Options options_of(Rig& rig) {
    Options options;
    options.metaserver = rig.cluster.meta.endpoint();
    options.memory_bytes = kMinMemoryBytes;
    return options;
  }
  LostRange whole(uint32_t index) {
    const ChunkId id = rig.cluster.chunk("/f", index);
    proto::Stripe stripe = rig.cluster.meta.stripes.at(id.stripe.value);
    stripe.mutable_chunks(static_cast<int>(index))
        ->set_capability(fmt::format("read {}:{}", id.stripe.value, index));
    return lost_range(stripe, index, 0, stripe.chunks(static_cast<int>(index)).length());
  }

  Rig& rig;
  simulation::SimNode node;
  Resources resources;
};

TEST(LostChunk, IsPlannedHoweverManyServersTheClientAvoids) {
  Rig rig(17);
  OpenClient client(rig);
  for (uint64_t id = 1; id < 1000; ++id) {
    if (id > rig.cluster.servers.size()) client.resources.health.failed(ServerId{id});
  }
  const uint64_t avoided = rig.holder(4).id;
  client.resources.health.failed(ServerId{avoided});
  DegradedRead read(client.resources, Context{}, client.whole(0), {}, rig.sink);
  EXPECT_EQ(rig.cluster.run(read.run()), Status{});
  EXPECT_TRUE(rig.got(0, 0, rig.chunk(0).size()));
  ASSERT_EQ(rig.cluster.meta.plan_requests.size(), 1u);
  const auto& excluded = rig.cluster.meta.plan_requests[0].exclude();
  ASSERT_EQ(excluded.size(), 1) << "the others have nothing of the stripe";
  EXPECT_EQ(excluded[0], avoided);
}

asio::awaitable<void> run_read(DegradedRead& read, std::optional<Status>& ended) {
  ended = co_await read.run();
}

TEST(LostChunk, APlanThatComesTooLateIsFinished) {
  Rig rig(18);
  OpenClient client(rig);
  DegradedRead read(client.resources, Context{}, client.whole(0), {}, rig.sink);
  std::optional<Status> ended;
  asio::co_spawn(rig.cluster.simulation.executor(), run_read(read, ended), asio::detached);
  ASSERT_TRUE(rig.cluster.simulation.run_until([&] { return !rig.cluster.meta.plan_requests.empty(); }));
  read.cancel();
  ASSERT_TRUE(rig.cluster.simulation.run_until([&] { return ended.has_value(); }));
  EXPECT_EQ(ended->code(), Code::kCancelled);
  rig.cluster.simulation.run_for(1s);
  ASSERT_EQ(rig.cluster.meta.finished_reads.size(), 1u);
  EXPECT_FALSE(rig.cluster.meta.finished_reads[0].ok());
  EXPECT_EQ(rig.sums(), 0u);
}

// ---- reading files

constexpr const char* kWidePolicy = "rs-6-3-1024k";
constexpr uint64_t kWideChunk = 2 << 20, kWideSize = 12 << 20;

TEST(TreeRead, APartOfALostCellComesByATreeAndCostsTheDownlinkOneRange) {
  Rig rig(10, kWideSize, kWidePolicy, kWideChunk);
  rig.cluster.kill(rig.cluster.holder("/f", 2));
  rig.cluster.meta.known_dead = {rig.holder(2).id};
  std::vector<std::byte> into(900'000);
  const uint64_t offset = (2 << 20) + 50'000;
  ASSERT_TRUE(rig.cluster.run(rig.cluster.client().read_at("/f", offset, into)));
  EXPECT_EQ(0, std::memcmp(into.data(), rig.bytes.data() + offset, into.size()));
  EXPECT_EQ(rig.sums(), 6u);
  EXPECT_EQ(rig.reads(), 0u);
}

TEST(TreeRead, TooLittleToBeWorthAPlanIsDecodedHere) {
  Rig rig(11, kWideSize, kWidePolicy, kWideChunk);
  rig.cluster.kill(rig.cluster.holder("/f", 2));
  rig.cluster.meta.known_dead = {rig.holder(2).id};
  std::vector<std::byte> into(4096);
  ASSERT_TRUE(rig.cluster.run(rig.cluster.client().read_at("/f", 2 << 20, into)));
  EXPECT_EQ(0, std::memcmp(into.data(), rig.bytes.data() + (2 << 20), into.size()));
  EXPECT_TRUE(rig.cluster.meta.plan_requests.empty());
  EXPECT_EQ(rig.reads(), 6u);
}

TEST(TreeRead, WhatALocalGroupGivesWithLittleIsNotWorthAPlanEither) {
  Rig rig(16, 12 << 20, "lrc-12-2-2-1024k", 1 << 20);
  rig.cluster.kill(rig.cluster.holder("/f", 2));
  rig.cluster.meta.known_dead = {rig.holder(2).id};
  std::vector<std::byte> into(4096);
  ASSERT_TRUE(rig.cluster.run(rig.cluster.client().read_at("/f", 2 << 20, into)));
  EXPECT_EQ(0, std::memcmp(into.data(), rig.bytes.data() + (2 << 20), into.size()));
  // 5 blocks more are fetched, instead of the 11 of a code without groups.
  EXPECT_TRUE(rig.cluster.meta.plan_requests.empty());
  EXPECT_EQ(rig.reads(), 6u);
}

TEST(TreeRead, WholeRowsAreDecodedHereBecauseOneMoreChunkIsAllTheyNeed) {
  Rig rig(12, kWideSize, kWidePolicy, kWideChunk);
  rig.cluster.kill(rig.cluster.holder("/f", 2));
  rig.cluster.meta.known_dead = {rig.holder(2).id};
  EXPECT_TRUE(*rig.cluster.get("/f") == rig.bytes);
  EXPECT_TRUE(rig.cluster.meta.plan_requests.empty());
}

TEST(TreeRead, AChunkThatLagsIsReplacedByATree) {
  Rig rig(13, kWideSize, kWidePolicy, kWideChunk);
  rig.holder(0).read_delay = 20s;
  std::vector<std::byte> into(1 << 20);
  const TimePoint began = rig.cluster.simulation.now();
  ASSERT_TRUE(rig.cluster.run(rig.cluster.client().read_at("/f", 0, into)));
  EXPECT_LT(rig.cluster.simulation.now() - began, 3s);
  EXPECT_EQ(0, std::memcmp(into.data(), rig.bytes.data(), into.size()));
  EXPECT_EQ(rig.reads(), 1u);
  EXPECT_EQ(rig.sums(), 6u);
}

TEST(TreeRead, ATreeThatHangsOrFailsIsNotWaitedForLong) {
  for (const bool hangs : {true, false}) {
    Rig rig(14, kWideSize, kWidePolicy, kWideChunk);
    rig.cluster.kill(rig.cluster.holder("/f", 2));
    rig.cluster.meta.known_dead = {rig.holder(2).id};
    for (auto& server : rig.cluster.servers) {
      server->sums_hang = hangs;
      server->fail_sum_at = 0;
    }
    std::vector<std::byte> into(1 << 20);
    const TimePoint began = rig.cluster.simulation.now();
    ASSERT_TRUE(rig.cluster.run(rig.cluster.client().read_at("/f", 2 << 20, into)));
    EXPECT_LT(rig.cluster.simulation.now() - began, 3s);
    EXPECT_EQ(0, std::memcmp(into.data(), rig.bytes.data() + (2 << 20), into.size()));
  }
}

TEST(TreeRead, AMetaserverThatIsAwayDoesNotKeepDegradedReadsFromBeingServed) {
  Rig rig(15, kWideSize, kWidePolicy, kWideChunk);
  rig.cluster.kill(rig.cluster.holder("/f", 2));
  rig.cluster.meta.known_dead = {rig.holder(2).id};
  TimedCollector sink(rig.cluster.simulation);
  const auto cut = [&]() -> asio::awaitable<void> {
    runtime::TaskGroup group(rig.cluster.simulation.executor(), rig.cluster.simulation.clock());
    co_await group.sleep_for(1ms);
    rig.cluster.simulation.network().isolate("meta");
  };
  ReadOptions options;
  options.offset = 2 << 20;
  options.length = 1 << 20;
  for (auto& server : rig.cluster.servers)
    server->read_delay = 10ms;
  asio::co_spawn(rig.cluster.simulation.executor(), cut(), asio::detached);
  const auto read = rig.cluster.run(rig.cluster.client().read("/f", sink, options));
  ASSERT_TRUE(read) << read.error();
  EXPECT_TRUE(std::equal(sink.bytes.begin(), sink.bytes.end(), rig.bytes.begin() + (2 << 20)));
}

}  // namespace
}  // namespace kintsugi::client

// A file is read as it was written, for sizes around every border, and nothing is left of one whose write fails.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "erasure/layout.h"
#include "tests/client/fake_cluster.h"

namespace kintsugi::client {
namespace {

std::set<uint64_t> border_sizes(const erasure::Policy& policy, uint64_t chunk_bytes) {
  const uint64_t cell = policy.cell_bytes, row = policy.k * cell;
  const uint64_t stripe = erasure::max_stripe_bytes(policy, chunk_bytes);
  return {0,
          1,
          4095,
          65535,
          65536,
          65537,
          cell - 1,
          cell,
          cell + 1,
          row - 1,
          row,
          row + 1,
          row + cell + 7,
          stripe - 1,
          stripe,
          stripe + 1,
          2 * stripe,
          3 * stripe + row + 17};
}

void round_trip(const std::string& policy_name, uint64_t chunk_bytes, uint64_t seed) {
  const erasure::Policy policy = *erasure::Policy::parse(policy_name);
  FakeCluster cluster(seed, policy.chunks() + 1);
  cluster.meta.policy = policy_name;
  cluster.meta.chunk_bytes = chunk_bytes;
  for (uint64_t size : border_sizes(policy, chunk_bytes)) {
    SCOPED_TRACE(fmt::format("{} with {} bytes", policy_name, size));
    const auto bytes = random_bytes(size, size);
    const std::string path = fmt::format("/{}", size);
    ASSERT_EQ(cluster.put(path, bytes), Status{});
    const auto back = cluster.get(path);
    ASSERT_TRUE(back) << back.error();
    ASSERT_TRUE(*back == bytes);
    PipeSource pipe(bytes);
    ASSERT_TRUE(cluster.run(cluster.client().write(path + "-pipe", pipe)));
    ASSERT_TRUE(*cluster.get(path + "-pipe") == bytes);
  }
  EXPECT_TRUE(cluster.meta.reports.empty());
}

TEST(RoundTrip, ReturnsWhatWasWrittenForSizesAroundEveryBorder) {
  round_trip("rs-3-2-64k", 256 * 1024, 1);
}
TEST(RoundTrip, WorksWithCellsOfSeveralBlocksThatDoNotFillABuffer) {
  round_trip("rs-4-2-192k", 768 * 1024, 2);
}
TEST(RoundTrip, WorksWithCellsLargerThanABuffer) {
  round_trip("rs-2-1-2048k", 4 << 20, 3);
}
TEST(RoundTrip, WorksWithCellsLargerThanAChunk) {
  round_trip("rs-2-1-1024k", 512 * 1024, 4);
}
TEST(RoundTrip, WorksWithReplication) {
  round_trip("replication-3-128k", 256 * 1024, 5);
}
TEST(RoundTrip, WorksWithoutRedundancy) {
  round_trip("rs-2-0-64k", 128 * 1024, 6);
}

TEST(RoundTrip, ReadsAnyRangeAtRandom) {
  FakeCluster cluster(7);
  const auto bytes = random_bytes(3'000'000, 7);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  auto& random = cluster.simulation.random();
  for (int i = 0; i < 300; ++i) {
    const uint64_t offset = random.below(bytes.size() + 1000);
    const uint64_t length = 1 + random.below(i % 3 == 0 ? 2'000'000 : 100'000);
    std::vector<std::byte> into(length);
    const auto got = cluster.run(cluster.client().read_at("/f", offset, into));
    ASSERT_TRUE(got) << got.error();
    const uint64_t expected = offset >= bytes.size() ? 0 : std::min<uint64_t>(length, bytes.size() - offset);
    ASSERT_EQ(*got, expected) << "offset " << offset << " length " << length;
    ASSERT_EQ(0, std::memcmp(into.data(), bytes.data() + offset, expected)) << "offset " << offset;
  }
}

TEST(RoundTrip, KeepsAFileOfOneCellAsCopiesThatEachSuffice) {
  FakeCluster cluster(8);
  const auto bytes = random_bytes(5000, 8);
  ASSERT_EQ(cluster.put("/small", bytes), Status{});
  const proto::Stripe& stripe = cluster.meta.stripes.at(cluster.chunk("/small", 0).stripe.value);
  EXPECT_EQ(stripe.policy(), "replication-3-64k");
  cluster.kill(cluster.holder("/small", 0));
  cluster.kill(cluster.holder("/small", 1));
  EXPECT_TRUE(*cluster.get("/small") == bytes);
}

TEST(RoundTrip, MovesManySmallFilesAtOnceWithinItsMemory) {
  FakeCluster cluster(15);
  const size_t count = kMinMemoryBytes / Memory::kBufferBytes;
  for (const auto& server : cluster.servers)
    server->write_delay = server->read_delay = 500ms;
  size_t written = 0, read = 0;
  const auto write = [](FakeCluster& cluster, size_t number, size_t& count) -> asio::awaitable<void> {
    const auto bytes = random_bytes(4096, number);
    MemorySource source(bytes);
    count += (co_await cluster.client().write(fmt::format("/{}", number), source)).has_value();
  };
  const auto read_back = [](FakeCluster& cluster, size_t number, size_t& count) -> asio::awaitable<void> {
    std::vector<std::byte> back(4096);
    const auto got = co_await cluster.client().read_at(fmt::format("/{}", number), 0, back);
    count += got && back == random_bytes(4096, number);
  };
  for (size_t number = 0; number < count; ++number)
    asio::co_spawn(cluster.simulation.executor(), write(cluster, number, written), asio::detached);
  cluster.simulation.run_for(900ms);
  EXPECT_EQ(written, count) << "all of them wait for their servers at the same time";
  for (const auto& server : cluster.servers)
    server->read_delay = 80ms;  // below what is hedged
  for (size_t number = 0; number < count; ++number)
    asio::co_spawn(cluster.simulation.executor(), read_back(cluster, number, read), asio::detached);
  cluster.simulation.run_for(150ms);
  EXPECT_EQ(read, count);
}

/// Bytes with holes between them, which must not be read, and of which `grows_by` come only while they are read.
class SparseSource : public MemorySource {
 public:
  SparseSource(std::span<const std::byte> bytes, std::optional<std::vector<DataRange>> data,
               uint64_t grows_by)
      : MemorySource(bytes), data_(std::move(data)), end_(bytes.size()), size_(end_ - grows_by) {}
  asio::awaitable<Result<size_t>> read(uint64_t offset, std::span<const std::span<std::byte>> into) override {
    uint64_t bytes = 0;
    for (const auto range : into)
      bytes += range.size();
    if (data_ && offset < data_->back().begin)
      EXPECT_TRUE(std::ranges::any_of(
          *data_,
          [&](const DataRange& range) { return range.begin <= offset && offset + bytes <= range.end; }))
          << offset << " for " << bytes;
    size_ = end_;
    return MemorySource::read(offset, into);
  }
  std::optional<uint64_t> size() const override { return size_; }
  std::optional<std::vector<DataRange>> data() const override { return data_; }

 private:
  const std::optional<std::vector<DataRange>> data_;
  const uint64_t end_;
  uint64_t size_;
};

TEST(RoundTrip, HolesOfASourceTakeNoRoomWhateverTheyAreAndWhereverStripesEnd) {
  FakeCluster cluster(31);
  std::mt19937_64 dice(31);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    std::vector<DataRange> data;
    uint64_t end = dice() % 2 * (dice() % 300'000), stored = 0;
    for (uint64_t left = dice() % 6; left > 0; --left) {
      const uint64_t length = 1 + dice() % (dice() % 2 ? 5'000 : 1'500'000);
      data.push_back({end, end + length});
      stored += length;
      end += length + 1 + dice() % 400'000;
    }
    data.push_back({end, end});
    const uint64_t grows_by = dice() % 3 == 0 ? dice() % 200'000 : 0;
    std::vector<std::byte> bytes(end + (stored == 0 ? 0 : grows_by));
    const auto all = random_bytes(bytes.size(), static_cast<uint64_t>(round));
    for (const DataRange& range : data)
      std::copy_n(all.begin() + static_cast<ptrdiff_t>(range.begin), range.end - range.begin,
                  bytes.begin() + static_cast<ptrdiff_t>(range.begin));
    std::copy(all.begin() + static_cast<ptrdiff_t>(end), all.end(),
              bytes.begin() + static_cast<ptrdiff_t>(end));
    stored += bytes.size() - end;

    SparseSource source(bytes, data, bytes.size() - end);
    const std::string path = fmt::format("/{}", round);
    const auto written = cluster.run(cluster.client().write(path, source));
    ASSERT_TRUE(written) << written.error();
    EXPECT_EQ(written->size(), bytes.size());
    const auto back = cluster.get(path);
    ASSERT_TRUE(back) << back.error();
    ASSERT_TRUE(*back == bytes);
    uint64_t in_stripes = 0;
    for (const auto& [id, stripe] : cluster.meta.stripes)
      in_stripes += stripe.length();
    EXPECT_EQ(in_stripes, stored);
    cluster.meta.stripes.clear();
  }
}

TEST(RoundTrip, WhatASourceGrowsByWhileItIsReadIsWrittenAsWell) {
  FakeCluster cluster(32);
  for (const uint64_t size : {uint64_t{1}, uint64_t{70'000}, uint64_t{3'000'000}}) {
    const auto bytes = random_bytes(size + 1'234'567, size);
    SparseSource source(bytes, std::nullopt, 1'234'567);
    const std::string path = fmt::format("/{}", size);
    const auto written = cluster.run(cluster.client().write(path, source));
    ASSERT_TRUE(written) << written.error();
    ASSERT_TRUE(*cluster.get(path) == bytes);
  }
}

TEST(RoundTrip, RefusesToReplaceUnlessAskedTo) {
  FakeCluster cluster(9);
  const auto old_bytes = random_bytes(100'000, 1), new_bytes = random_bytes(300'000, 2);
  ASSERT_EQ(cluster.put("/f", old_bytes), Status{});
  EXPECT_EQ(cluster.put("/f", new_bytes).code(), Code::kAlreadyExists);
  EXPECT_TRUE(*cluster.get("/f") == old_bytes);
  WriteOptions options;
  options.replace = true;
  EXPECT_EQ(cluster.put("/f", new_bytes, options), Status{});
  EXPECT_TRUE(*cluster.get("/f") == new_bytes);
}

TEST(RoundTrip, FailsClearlyForWhatIsNotThere) {
  FakeCluster cluster(10);
  MemorySink nothing(std::span<std::byte>{});
  const auto read = cluster.run(cluster.client().read("/nope", nothing));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::kNotFound);
}

TEST(RoundTrip, ManyTransfersShareOneBoundOnMemoryWithoutLockingEachOtherOut) {
  FakeCluster cluster(11, 8, kMinMemoryBytes);
  cluster.meta.policy = "rs-3-2-1024k";
  cluster.meta.chunk_bytes = 4 << 20;
  const auto bytes = random_bytes(20'000'000, 11);
  std::vector<std::vector<std::byte>> back(6, std::vector<std::byte>(bytes.size()));
  int good = 0;
  const auto move = [](Client& client, const std::vector<std::byte>& from, std::vector<std::byte>& to,
                       int number, int& count) -> asio::awaitable<void> {
    MemorySource source(from);
    const std::string path = fmt::format("/{}", number);
    const auto written = co_await client.write(path, source);
    MemorySink sink(to);
    const auto read = co_await client.read(path, sink);
    count += written && read && to == from;
  };
  const auto all = [&]() -> asio::awaitable<void> {
    runtime::TaskGroup group(cluster.simulation.executor(), cluster.simulation.clock());
    for (int i = 0; i < 6; ++i)
      group.spawn(move(cluster.client(), bytes, back[static_cast<size_t>(i)], i, good));
    co_await group.join();
  };
  cluster.run(all());
  EXPECT_EQ(good, 6);
}

TEST(RoundTrip, ManyReadersOfPiecesOfLostChunksDoNotLockEachOtherOut) {
  FakeCluster cluster(12, 8, kMinMemoryBytes);
  cluster.meta.policy = "rs-3-2-1024k";
  cluster.meta.chunk_bytes = 4 << 20;
  const auto bytes = random_bytes(12'000'000, 12);
  ASSERT_EQ(cluster.put("/packed", bytes), Status{});
  // Each piece is a cell. The first one is lost, and the others come soon and are kept until that was read.
  constexpr uint64_t kPiece = 1 << 20, kPieces = 10;
  FakeMetaServer::File& file = cluster.meta.files["/pieces"];
  std::vector<std::byte> model;
  for (uint64_t i = 0; i < kPieces; ++i) {
    proto::Extent& extent = file.extents.emplace_back();
    extent.set_file_offset(model.size());
    extent.set_length(kPiece);
    extent.set_stripe_id(cluster.meta.files["/packed"].extents.front().stripe_id());
    extent.set_stripe_offset(i == 0 ? 0 : (1 + i % 2 + 3 * (i % 3)) * kPiece);
    const auto from = bytes.begin() + static_cast<ptrdiff_t>(extent.stripe_offset());
    model.insert(model.end(), from, from + kPiece);
  }
  file.attributes.set_size(model.size());
  cluster.kill(cluster.holder("/packed", 0));
  std::vector<std::vector<std::byte>> back(10, std::vector<std::byte>(model.size()));
  size_t good = 0;
  const auto read = [](Client& client, std::vector<std::byte>& to, const std::vector<std::byte>& expected,
                       size_t& count) -> asio::awaitable<void> {
    MemorySink sink(to);
    const auto attributes = co_await client.read("/pieces", sink);
    count += attributes && to == expected;
  };
  const auto all = [&]() -> asio::awaitable<void> {
    runtime::TaskGroup group(cluster.simulation.executor(), cluster.simulation.clock());
    for (auto& to : back)
      group.spawn(read(cluster.client(), to, model, good));
    co_await group.join();
  };
  const TimePoint began = cluster.simulation.clock().now();
  cluster.run(all());
  EXPECT_EQ(good, back.size());
  EXPECT_LT(cluster.simulation.clock().now() - began, 1min) << "they waited for each other's memory";
}

TEST(RoundTrip, HolesAndManySmallExtentsAreReadInAnyRange) {
  FakeCluster cluster(31);
  const auto bytes = random_bytes(700'000, 31);
  ASSERT_EQ(cluster.put("/packed", bytes), Status{});
  // Pieces of that file's stripe, in another order, with holes between them and at the end.
  auto& random = cluster.simulation.random();
  FakeMetaServer::File& file = cluster.meta.files["/sparse"];
  const uint64_t stripe = cluster.meta.files["/packed"].extents.front().stripe_id();
  const uint64_t stripe_bytes = cluster.meta.stripes[stripe].length();
  std::vector<std::byte> model;
  for (int i = 0; i < 400; ++i) {
    proto::Extent& extent = file.extents.emplace_back();
    extent.set_file_offset(model.size() + (random.below(2) == 0 ? 0 : random.below(20'000)));
    extent.set_length(1 + random.below(i % 50 == 0 ? 200'000 : 5000));
    extent.set_stripe_id(stripe);
    extent.set_stripe_offset(random.below(stripe_bytes - extent.length()));
    model.resize(extent.file_offset());
    const auto from = bytes.begin() + static_cast<ptrdiff_t>(extent.stripe_offset());
    model.insert(model.end(), from, from + static_cast<ptrdiff_t>(extent.length()));
  }
  model.resize(model.size() + 5'000'000);
  file.attributes.set_size(model.size());
  const auto back = cluster.get("/sparse");
  ASSERT_TRUE(back) << back.error();
  EXPECT_TRUE(*back == model);
  for (int i = 0; i < 100; ++i) {
    const uint64_t offset = random.below(model.size()),
                   length = 1 + random.below(i % 3 == 0 ? 3'000'000 : 9000);
    std::vector<std::byte> into(length);
    const auto read = cluster.run(cluster.client().read_at("/sparse", offset, into));
    ASSERT_TRUE(read) << read.error();
    ASSERT_EQ(*read, std::min<uint64_t>(length, model.size() - offset));
    ASSERT_TRUE(std::equal(into.begin(), into.begin() + static_cast<ptrdiff_t>(*read),
                           model.begin() + static_cast<ptrdiff_t>(offset)))
        << offset << " " << length;
  }
  // Few reads of servers, many extents.
  uint64_t before = 0, after = 0;
  for (const auto& server : cluster.servers)
    before += server->reads;
  ASSERT_TRUE(cluster.get("/sparse"));
  for (const auto& server : cluster.servers)
    after += server->reads;
  EXPECT_LE(after - before, 100u);
}

TEST(RoundTrip, OfAFileThatIsTruncatedMeanwhileFailsInsteadOfEndingInZeros) {
  FakeCluster cluster(23);
  cluster.meta.policy = "rs-2-0-64k";
  cluster.meta.chunk_bytes = 512 * 1024;
  constexpr uint64_t kStripe = 1 << 20;
  ASSERT_EQ(cluster.put("/f", random_bytes(24 * kStripe, 5)), Status{});
  const int located = cluster.meta.locates;
  const auto truncate = [&]() -> asio::awaitable<void> {
    runtime::TaskGroup group(cluster.simulation.executor(), cluster.simulation.clock());
    while (cluster.meta.locates < located + 10)  // by then the first bytes were handed over
      co_await group.sleep_for(std::chrono::microseconds(100));
    FakeMetaServer::File& file = cluster.meta.files.at("/f");
    file.attributes.set_size(20 * kStripe);
    file.extents.resize(20);
  };
  asio::co_spawn(cluster.simulation.executor(), truncate(), asio::detached);
  const auto back = cluster.get("/f");
  ASSERT_FALSE(back) << back->size() << " bytes, of which the last are in nobody's file";
  EXPECT_EQ(back.error().code(), Code::kConflict) << back.error();
}

}  // namespace
}  // namespace kintsugi::client

// Lost chunks are read through trees of real chunkservers that the real repair manager plans, with the client
// as the repair site.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <fmt/format.h>

#include "common/proto/names.h"
#include "erasure/layout.h"
#include "tests/simulation/cluster/simulated_cluster.h"

namespace kintsugi::simulation {
namespace {

class Collector final : public client::Sink {
 public:
  asio::awaitable<Status> write(uint64_t offset, std::span<const std::span<const std::byte>> from) override {
    if (bytes.empty()) begin = offset;
    EXPECT_EQ(offset, begin + bytes.size());
    for (const auto& range : from)
      bytes.insert(bytes.end(), range.begin(), range.end());
    co_return Status{};
  }
  uint64_t begin = 0;
  std::vector<std::byte> bytes;
};

/// The shape of a tree, or none for "local": fetched and decoded by the reader.
std::optional<proto::RepairShape> tree_of(std::string_view shape) {
  if (shape == "local") return std::nullopt;
  return proto::parse_shape(shape).value();
}

client::LostReadOptions options(const std::string& shape, uint64_t offset = 0, uint64_t length = 0) {
  client::LostReadOptions result;
  result.shape = tree_of(shape);
  result.offset = offset;
  result.length = length;
  result.fall_back = false;
  return result;
}

/// A cluster with a file of one stripe, and the bytes of its data chunks.
class Rig {
 public:
  Rig(ClusterOptions cluster_options, uint64_t size) : cluster(std::move(cluster_options)) {
    EXPECT_EQ(cluster.start(), Status{});
    EXPECT_EQ(cluster.put("/file", size), Status{});
    stripe = cluster.stripes_of("/file").at(0);
    const auto file = cluster.get("/file");
    EXPECT_TRUE(file);
    const auto policy = erasure::Policy::parse(stripe.policy());
    chunks.resize(policy->k);
    for (const erasure::Piece& piece : erasure::pieces(*policy, 0, stripe.length())) {
      const auto from = file->begin() + static_cast<ptrdiff_t>(piece.stripe_offset);
      chunks[piece.chunk].insert(chunks[piece.chunk].end(), from, from + piece.bytes);
    }
    (void)cluster.server_id(0);
  }

  size_t holder(uint32_t index) {
    return cluster.server_of(ServerId{stripe.chunks(static_cast<int>(index)).server_id()}).value();
  }

  struct Read {
    bool done = false;
    Status status;
    client::DegradedReadReport report;
    Collector sink;
  };
  std::shared_ptr<Read> start(uint32_t index, client::LostReadOptions read_options) {
    auto read = std::make_shared<Read>();
    asio::co_spawn(cluster.simulation().executor(), run(read, index, std::move(read_options)),
                   asio::detached);
    return read;
  }
  bool finish(const std::shared_ptr<Read>& read) {
    return cluster.simulation().run_until([&] { return read->done; }, SimulatedCluster::kOperationLimit);
  }
  std::shared_ptr<Read> read(uint32_t index, client::LostReadOptions read_options) {
    auto read = start(index, std::move(read_options));
    EXPECT_TRUE(finish(read));
    return read;
  }
  bool right(const Read& read, uint32_t index, uint64_t begin, uint64_t end) const {
    const auto& whole = chunks[index];
    return read.sink.bytes.size() == end - begin && std::equal(read.sink.bytes.begin(), read.sink.bytes.end(),
                                                               whole.begin() + static_cast<ptrdiff_t>(begin));
  }

  SimulatedCluster cluster;
  proto::Stripe stripe;
  std::vector<std::vector<std::byte>> chunks;  // data

 private:
  asio::awaitable<void> run(std::shared_ptr<Read> read, uint32_t index,
                            client::LostReadOptions read_options) {
    auto report = co_await cluster.client().read_lost_chunk(stripe.stripe_id(), index, read->sink,
                                                            std::move(read_options));
    if (report) {
      read->report = *report;
    } else {
      read->status = report.error();
    }
    read->done = true;
  }
};

constexpr uint64_t kChunk = 1 << 20;

TEST(DegradedRead, AnyRangeOfALostChunkIsWhatWasWrittenWhateverTheShape) {
  for (const uint64_t seed : seeds({1})) {
    Rig rig({.seed = seed}, kWholeStripe);
    const size_t lost = rig.holder(2);
    rig.cluster.crash_chunkserver(lost, Crash::kPower);
    const std::vector<uint64_t> borders{0, 1, 65'535, 65'537, 524'288, kChunk - 1, kChunk};
    for (const std::string shape : {"star", "ppr", "chain", "weighted", "auto", "local"}) {
      for (const uint64_t begin : borders) {
        for (const uint64_t end : borders) {
          if (begin >= end) continue;
          SCOPED_TRACE(fmt::format("{}, {} to {}", shape, begin, end));
          const auto read = rig.read(2, options(shape, begin, end - begin));
          KINTSUGI_ASSERT_OK(read->status);
          ASSERT_TRUE(rig.right(*read, 2, begin, end));
        }
      }
    }
  }
}

TEST(DegradedRead, ShortLastCellsAreReadToTheirEnd) {
  for (const uint64_t seed : seeds({2})) {
    Rig rig({.seed = seed}, 2'000'001);
    for (const uint32_t index : {0u, 3u, 5u}) {
      for (const std::string shape : {"star", "chain", "local"}) {
        const auto read = rig.read(index, options(shape));
        KINTSUGI_ASSERT_OK(read->status);
        EXPECT_TRUE(rig.right(*read, index, 0, rig.chunks[index].size())) << shape << " of chunk " << index;
      }
    }
  }
}

TEST(DegradedRead, TheFirstSliceIsThereLongBeforeTheLastOneWasSent) {
  for (const uint64_t seed : seeds({3})) {
    Rig rig({.seed = seed}, kWholeStripe);
    for (size_t server = 0; server < rig.cluster.chunkservers(); ++server)
      rig.cluster.network().set_link(SimulatedCluster::name(server), 1'000'000, 1'000'000);
    client::LostReadOptions sliced = options("chain");
    sliced.slice_bytes = 65'536;
    const auto read = rig.read(2, sliced);
    KINTSUGI_ASSERT_OK(read->status);
    EXPECT_GT(read->report.seconds, 1.0);  // 1 MiB at 1 MB/s
    EXPECT_LT(read->report.first_byte_seconds, read->report.seconds / 2);
  }
}

TEST(DegradedRead, OverSlowLinksAChainBeatsFetchingAllHelpersByAboutTheirNumber) {
  for (const uint64_t seed : seeds({4})) {
    Rig rig({.seed = seed}, kWholeStripe);
    for (size_t server = 0; server < rig.cluster.chunkservers(); ++server)
      rig.cluster.network().set_link(SimulatedCluster::name(server), 2'000'000, 2'000'000);
    rig.cluster.network().set_link("client", 2'000'000, 2'000'000);
    const auto local = rig.read(2, options("local"));
    KINTSUGI_ASSERT_OK(local->status);
    client::LostReadOptions sliced = options("chain");
    sliced.slice_bytes = 65'536;
    const auto chain = rig.read(2, sliced);
    KINTSUGI_ASSERT_OK(chain->status);
    EXPECT_GT(local->report.seconds, 3 * chain->report.seconds);
    EXPECT_LT(chain->report.bytes_in, kChunk + kChunk / 8);
  }
}

TEST(DegradedRead, AHelperThatDiesOrHangsMeanwhileCostsTimeButNoBytes) {
  for (const uint64_t seed : seeds({11, 12, 13, 14})) {
    for (const bool dies : {true, false}) {
      Rig rig({.seed = seed, .chunkservers = 12, .racks = 6}, kWholeStripe);
      for (size_t server = 0; server < rig.cluster.chunkservers(); ++server)
        rig.cluster.network().set_link(SimulatedCluster::name(server), 1'000'000, 1'000'000);
      client::LostReadOptions read_options = options(seed % 2 ? "chain" : "ppr");
      read_options.slice_bytes = 65'536;
      read_options.fall_back = true;
      const auto read = rig.start(2, read_options);
      rig.cluster.run_for(rig.cluster.random_time(10ms, 900ms));
      const size_t victim = rig.holder(seed % 2 ? 4 : 0);
      if (dies) {
        rig.cluster.crash_chunkserver(victim, seed % 4 < 2 ? Crash::kKill : Crash::kPower);
      } else {
        rig.cluster.hang(victim);
      }
      ASSERT_TRUE(rig.finish(read));
      KINTSUGI_EXPECT_OK(read->status);
      EXPECT_TRUE(rig.right(*read, 2, 0, kChunk));
      EXPECT_LT(read->report.seconds, 60.0);
      rig.cluster.unhang(victim);
    }
  }
}

TEST(DegradedRead, IsServedWhateverHappensToTheMetaserverOnceTheFileIsOpen) {
  for (const uint64_t seed : seeds({21, 22, 23, 24})) {
    Rig rig({.seed = seed, .policy = "rs-6-3-1024k"}, kWholeStripe);
    rig.cluster.crash_chunkserver(rig.holder(2), Crash::kKill);
    KINTSUGI_EXPECT_OK(rig.cluster.check_range("/file", 2 << 20, 1 << 20));
    const auto check = rig.cluster.start_check("/file");
    rig.cluster.run_for(rig.cluster.random_time(0ms, 60ms));
    rig.cluster.crash_metaserver(Crash::kPower);
    rig.cluster.run_for(5s);
    rig.cluster.restart_metaserver();
    KINTSUGI_EXPECT_OK(rig.cluster.finish(check));
    KINTSUGI_EXPECT_OK(rig.cluster.check_range("/file", (2 << 20) + 1000, 900'000));
  }
}

TEST(DegradedRead, ChunksOfLocalAndRotatedCodesAreReadByTrees) {
  for (const uint64_t seed : seeds({31})) {
    for (const char* policy : {"lrc-6-2-2-64k", "rrs-6-3-256k"}) {
      SCOPED_TRACE(policy);
      Rig rig({.seed = seed, .chunkservers = 12, .racks = 6, .policy = policy}, kWholeStripe);
      rig.cluster.crash_chunkserver(rig.holder(1), Crash::kKill);
      for (const std::string shape : {"star", "chain", "auto", "local"}) {
        for (const auto& [begin, length] : {std::pair{0ul, 0ul}, {70'000ul, 300'000ul}, {262'143ul, 2ul}}) {
          const auto read = rig.read(1, options(shape, begin, length));
          KINTSUGI_EXPECT_OK(read->status);
          EXPECT_TRUE(rig.right(*read, 1, begin, length == 0 ? rig.chunks[1].size() : begin + length))
              << shape << " from " << begin;
        }
      }
    }
  }
}

}  // namespace
}  // namespace kintsugi::simulation

// Local and rotated codes through the client: files are read as they were written, whichever chunks that may be lost are.
#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "erasure/code.h"
#include "erasure/layout.h"
#include "tests/client/fake_cluster.h"

namespace kintsugi::client {
namespace {

using Indices = std::vector<uint32_t>;

class CodeCluster : public FakeCluster {
 public:
  CodeCluster(const std::string& name, uint64_t seed)
      : FakeCluster(seed, erasure::Policy::parse(name)->chunks() + 1),
        policy(*erasure::Policy::parse(name)),
        code(erasure::Code::get(policy)) {
    meta.policy = name;
    meta.chunk_bytes = 4 * policy.cell_bytes;
    meta.plans_reads = false;  // lost chunks are decoded here
  }

  /// The chunks of the file's first stripe are called unavailable from now on, others are not.
  void lose(const std::string& path, const Indices& lost) {
    meta.known_dead.clear();
    for (const uint32_t index : lost)
      meta.known_dead.insert(holder(path, index) + 1);
  }

  uint64_t row_bytes() const { return uint64_t{policy.k} * policy.cell_bytes; }

  const erasure::Policy policy;
  const std::shared_ptr<const erasure::Code> code;
};

class Codes : public ::testing::TestWithParam<const char*> {};

TEST_P(Codes, ReturnWhatWasWrittenForSizesAroundEveryBorder) {
  CodeCluster cluster(GetParam(), 1);
  const uint64_t cell = cluster.policy.cell_bytes, row = cluster.row_bytes();
  const uint64_t sub_cell = cell / cluster.policy.rows();
  const uint64_t stripe = erasure::max_stripe_bytes(cluster.policy, cluster.meta.chunk_bytes);
  const std::set<uint64_t> sizes{0,
                                 1,
                                 sub_cell + 1,
                                 cell,
                                 cell + 1,
                                 cell + sub_cell - 1,
                                 row - 1,
                                 row,
                                 row + 1,
                                 row + cell,
                                 row + cell + sub_cell + 7,
                                 2 * row - sub_cell,
                                 stripe - 1,
                                 stripe,
                                 stripe + 1,
                                 stripe + row + 17};
  for (const uint64_t size : sizes) {
    SCOPED_TRACE(size);
    const auto bytes = random_bytes(size, size);
    const std::string path = fmt::format("/{}", size);
    ASSERT_EQ(cluster.put(path, bytes), Status{});
    const auto back = cluster.get(path);
    ASSERT_TRUE(back) << back.error();
    ASSERT_TRUE(*back == bytes);
    if (size <= cell) continue;
    cluster.lose(path, {1, cluster.policy.k});  // one that is short or empty at some sizes, and a parity
    const auto degraded = cluster.get(path);
    ASSERT_TRUE(degraded) << degraded.error();
    ASSERT_TRUE(*degraded == bytes);
    cluster.lose(path, {});
  }
  EXPECT_TRUE(cluster.meta.reports.empty());
}

TEST_P(Codes, SurviveEveryLossThatTheyTolerate) {
  constexpr size_t kMostPatterns = 150;
  CodeCluster cluster(GetParam(), 2);
  const uint32_t chunks = cluster.policy.chunks();
  const auto bytes = random_bytes(cluster.row_bytes() + cluster.policy.cell_bytes * 3 / 2 + 11, 2);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  std::vector<Indices> patterns;
  for (uint32_t mask = 1; mask < uint32_t{1} << chunks; ++mask) {
    Indices lost, left;
    for (uint32_t i = 0; i < chunks; ++i)
      ((mask >> i & 1) != 0 ? lost : left).push_back(i);
    const bool local =
        cluster.policy.local > 0;  // its losses that are decodable beyond the promised ones as well
    if (lost.size() <= cluster.policy.tolerated() || (local && cluster.code->decodable(left)))
      patterns.push_back(std::move(lost));
  }
  std::mt19937_64 random(2);
  std::shuffle(patterns.begin(), patterns.end(), random);
  patterns.resize(std::min(patterns.size(), kMostPatterns));
  for (const Indices& lost : patterns) {
    SCOPED_TRACE(::testing::PrintToString(lost));
    cluster.lose("/f", lost);
    const auto back = cluster.get("/f");
    ASSERT_TRUE(back) << back.error();
    ASSERT_TRUE(*back == bytes);
  }
}

TEST_P(Codes, ReadSmallRangesOfALostChunk) {
  CodeCluster cluster(GetParam(), 3);
  const uint64_t cell = cluster.policy.cell_bytes;
  const auto bytes = random_bytes(cluster.row_bytes() + 2 * cell - 5'000, 3);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  cluster.kill(cluster.holder("/f", 1));
  for (uint64_t offset = cell - 6'000; offset < 2 * cell; offset += 33'333) {
    std::vector<std::byte> into(10'000);
    ASSERT_TRUE(cluster.run(cluster.client().read_at("/f", offset, into)));
    ASSERT_EQ(0, std::memcmp(into.data(), bytes.data() + offset, into.size())) << offset;
  }
  std::vector<std::byte> end(20'000);  // in the short last row
  const uint64_t offset = cluster.row_bytes() + 2 * cell - 25'000;
  ASSERT_TRUE(cluster.run(cluster.client().read_at("/f", offset, end)));
  EXPECT_EQ(0, std::memcmp(end.data(), bytes.data() + offset, end.size()));
}

TEST_P(Codes, ReadPastAServerThatHangs) {
  CodeCluster cluster(GetParam(), 4);
  const uint64_t cell = cluster.policy.cell_bytes;
  const auto bytes = random_bytes(2 * cluster.row_bytes(), 4);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  cluster.servers[cluster.holder("/f", 1)]->hangs = true;
  std::vector<std::byte> into(10'000);
  ASSERT_TRUE(cluster.run(cluster.client().read_at("/f", cell + 100'000 % cell, into)));
  EXPECT_EQ(0, std::memcmp(into.data(), bytes.data() + cell + 100'000 % cell, into.size()));
  EXPECT_TRUE(*cluster.get("/f") == bytes);
}

TEST_P(Codes, WriteAlthoughAServerFailsHalfway) {
  CodeCluster cluster(GetParam(), 5);
  const auto bytes = random_bytes(2 * cluster.row_bytes() + 1, 5);
  cluster.servers[2]->fail_write_at = cluster.policy.cell_bytes / 2;
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  const auto back = cluster.get("/f");
  ASSERT_TRUE(back) << back.error();
  EXPECT_TRUE(*back == bytes);
}

INSTANTIATE_TEST_SUITE_P(Policies, Codes,
                         ::testing::Values("lrc-6-2-2-64k", "lrc-12-2-2-128k", "rrs-6-3-256k",
                                           "rrs-12-4-256k", "rrs-4-2-768k"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(LocalCode, ReadsTheLocalGroupAndNoMoreForALostChunk) {
  CodeCluster cluster("lrc-6-2-2-64k", 6);
  const auto bytes = random_bytes(cluster.row_bytes(), 6);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  cluster.lose("/f", {4});
  std::vector<std::byte> into(1000);
  ASSERT_TRUE(cluster.run(cluster.client().read_at("/f", 4 * 65'536 + 7, into)));
  EXPECT_EQ(0, std::memcmp(into.data(), bytes.data() + 4 * 65'536 + 7, into.size()));
  for (uint32_t index = 0; index < 10; ++index) {
    const bool in_group = index == 3 || index == 5 || index == 7;
    EXPECT_EQ(cluster.servers[cluster.holder("/f", index)]->reads, in_group ? 1u : 0u) << index;
  }
}

TEST(LocalCode, AddsTheParityOfTheGroupWhenEverythingIsRead) {
  CodeCluster cluster("lrc-6-2-2-64k", 7);
  const auto bytes = random_bytes(cluster.row_bytes(), 7);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  cluster.lose("/f", {4});
  ASSERT_TRUE(*cluster.get("/f") == bytes);
  for (uint32_t index = 0; index < 10; ++index) {
    const bool needed = index != 4 && (index < 6 || index == 7);
    EXPECT_EQ(cluster.servers[cluster.holder("/f", index)]->reads, needed ? 1u : 0u) << index;
  }
}

TEST(LocalCode, SaysThatTooFewChunksAreLeft) {
  CodeCluster cluster("lrc-6-2-2-64k", 8);
  const auto bytes = random_bytes(cluster.row_bytes(), 8);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  for (const uint32_t index : {0u, 1u, 2u, 6u})  // six are left, but of the group none
    cluster.kill(cluster.holder("/f", index));
  const auto back = cluster.get("/f");
  ASSERT_FALSE(back);
  EXPECT_EQ(back.error().code(), Code::kUnavailable);
  EXPECT_NE(back.error().message().find("too few of 10 chunks can be read"), std::string::npos)
      << back.error();
  std::vector<std::byte> into(1000);
  EXPECT_TRUE(cluster.run(cluster.client().read_at("/f", 4 * 65'536, into))) << "of the other group";
}

TEST(RotatedCode, ReadsASmallRangeWithoutTheRestOfTheCell) {
  CodeCluster cluster("rrs-6-3-256k", 9);
  const auto bytes = random_bytes(cluster.row_bytes(), 9);
  ASSERT_EQ(cluster.put("/f", bytes), Status{});
  std::vector<std::byte> into(1000);
  ASSERT_TRUE(cluster.run(cluster.client().read_at("/f", 70'000, into)));
  uint64_t reads = 0;
  for (const auto& server : cluster.servers)
    reads += server->reads;
  EXPECT_EQ(reads, 1u);
}

TEST(SmallFiles, OfLocalAndRotatedPoliciesAreCopies) {
  for (const auto& [name, copies] :
       {std::pair("lrc-6-2-2-64k", "replication-4-64k"), std::pair("rrs-6-3-256k", "replication-4-256k")}) {
    CodeCluster cluster(name, 10);
    const auto bytes = random_bytes(60'000, 10);
    ASSERT_EQ(cluster.put("/f", bytes), Status{});
    ASSERT_EQ(cluster.meta.stripes.size(), 1u);
    EXPECT_EQ(cluster.meta.stripes.begin()->second.policy(), copies);
    EXPECT_TRUE(*cluster.get("/f") == bytes);
  }
}

}  // namespace
}  // namespace kintsugi::client

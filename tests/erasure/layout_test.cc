#include "erasure/layout.h"

#include <random>

#include <gtest/gtest.h>

namespace kintsugi::erasure {
namespace {

constexpr Policy kSmall{.k = 3, .m = 2, .cell_bytes = 4};

std::vector<uint64_t> lengths(const Policy& policy, uint64_t stripe_length) {
  std::vector<uint64_t> result;
  for (uint32_t i = 0; i < policy.chunks(); ++i)
    result.push_back(chunk_length(policy, stripe_length, i));
  return result;
}

TEST(Layout, GivesEachChunkItsOwnLength) {
  using Lengths = std::vector<uint64_t>;
  EXPECT_EQ(lengths(kSmall, 0), (Lengths{0, 0, 0, 0, 0}));
  EXPECT_EQ(lengths(kSmall, 3), (Lengths{3, 0, 0, 3, 3}));
  EXPECT_EQ(lengths(kSmall, 4), (Lengths{4, 0, 0, 4, 4}));
  EXPECT_EQ(lengths(kSmall, 5), (Lengths{4, 1, 0, 4, 4}));
  EXPECT_EQ(lengths(kSmall, 12), (Lengths{4, 4, 4, 4, 4}));
  EXPECT_EQ(lengths(kSmall, 13), (Lengths{5, 4, 4, 5, 5}));
  EXPECT_EQ(lengths(kSmall, 22), (Lengths{8, 8, 6, 8, 8}));
}

TEST(Layout, GivesRotatedParityWholeCells) {
  constexpr Policy kRotated{.k = 3, .m = 2, .cell_bytes = 4, .family = Policy::Family::kRotated};
  using Lengths = std::vector<uint64_t>;
  EXPECT_EQ(lengths(kRotated, 0), (Lengths{0, 0, 0, 0, 0}));
  EXPECT_EQ(lengths(kRotated, 1), (Lengths{1, 0, 0, 4, 4}));
  EXPECT_EQ(lengths(kRotated, 12), (Lengths{4, 4, 4, 4, 4}));
  EXPECT_EQ(lengths(kRotated, 13), (Lengths{5, 4, 4, 8, 8}));
  EXPECT_EQ(lengths(kRotated, 24), (Lengths{8, 8, 8, 8, 8}));
}

TEST(Layout, GivesTheParityOfALocalGroupTheLengthOfItsFirstChunk) {
  constexpr Policy kLocal{.k = 4, .m = 4, .cell_bytes = 4, .family = Policy::Family::kLocal, .local = 2};
  using Lengths = std::vector<uint64_t>;
  EXPECT_EQ(lengths(kLocal, 7), (Lengths{4, 3, 0, 0, 4, 0, 4, 4}));
  EXPECT_EQ(lengths(kLocal, 9), (Lengths{4, 4, 1, 0, 4, 1, 4, 4}));
  EXPECT_EQ(lengths(kLocal, 18), (Lengths{6, 4, 4, 4, 6, 4, 6, 6}));
}

/// The inverse of locate(): the user byte stored at `chunk_offset` of data chunk `chunk` (< k).
uint64_t stripe_offset_of(const Policy& policy, uint32_t chunk, uint64_t chunk_offset) {
  const uint64_t row = chunk_offset / policy.cell_bytes;
  return row * policy.k * policy.cell_bytes + uint64_t{chunk} * policy.cell_bytes +
         chunk_offset % policy.cell_bytes;
}

TEST(Layout, LocateAndItsInverseAgreeForEveryByte) {
  for (uint32_t k = 1; k <= 7; ++k) {
    const Policy policy{.k = k, .m = 2, .cell_bytes = 5};
    std::vector<uint64_t> seen(k);  // bytes of each chunk so far: stripe order fills each chunk in order
    for (uint64_t offset = 0; offset < 200; ++offset) {
      const Location at = locate(policy, offset);
      ASSERT_LT(at.chunk, k);
      ASSERT_EQ(at.chunk_offset, seen[at.chunk]++);
      ASSERT_EQ(stripe_offset_of(policy, at.chunk, at.chunk_offset), offset);
      for (uint32_t i = 0; i < k; ++i)
        ASSERT_EQ(chunk_length(policy, offset + 1, i), seen[i]);
    }
  }
}

TEST(Layout, ParityIsAsLongAsTheLongestDataChunk) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    const Policy policy{.k = static_cast<uint32_t>(1 + random() % 20),
                        .m = static_cast<uint32_t>(random() % 10),
                        .cell_bytes = static_cast<uint32_t>(1 + random() % 100)};
    const uint64_t length = random() % 5000;
    const auto all = lengths(policy, length);
    uint64_t sum = 0, longest = 0;
    for (uint32_t i = 0; i < policy.k; ++i) {
      sum += all[i];
      longest = std::max(longest, all[i]);
    }
    ASSERT_EQ(sum, length);
    for (uint32_t i = policy.k; i < policy.chunks(); ++i)
      ASSERT_EQ(all[i], longest);
  }
}

TEST(Layout, AFullStripeKeepsItsChunksWithinTheLimit) {
  const Policy policy{.k = 6, .m = 3, .cell_bytes = 1024 * 1024};
  EXPECT_EQ(max_stripe_bytes(policy, 64 << 20), uint64_t{6} * (64 << 20));
  for (const uint64_t limit :
       {1ull << 20, (1ull << 20) + 1, 5ull << 20, (5ull << 20) + 70'000, 256ull << 20}) {
    const uint64_t stripe = max_stripe_bytes(policy, limit);
    EXPECT_LE(chunk_length(policy, stripe, 0), limit);
    EXPECT_GT(chunk_length(policy, stripe, 0) + policy.cell_bytes, limit);
    EXPECT_EQ(stripe % (6 << 20), 0u);
  }
  EXPECT_EQ(max_stripe_bytes(policy, 1000), 1000u);
  EXPECT_EQ(chunk_length(policy, 1000, 0), 1000u);
}

TEST(Layout, PiecesCoverTheRangeOnceAndStayInTheirCells) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 2000; ++round) {
    const Policy policy{.k = static_cast<uint32_t>(1 + random() % 12),
                        .m = 2,
                        .cell_bytes = static_cast<uint32_t>(1 + random() % 50)};
    const uint64_t begin = random() % 3000, bytes = random() % 1000;
    uint64_t at = begin;
    for (const Piece& piece : pieces(policy, begin, bytes)) {
      ASSERT_EQ(piece.stripe_offset, at);
      ASSERT_GT(piece.bytes, 0u);
      ASSERT_EQ(piece.chunk_offset / policy.cell_bytes,
                (piece.chunk_offset + piece.bytes - 1) / policy.cell_bytes);
      ASSERT_EQ((Location{piece.chunk, piece.chunk_offset}), locate(policy, at));
      at += piece.bytes;
      ASSERT_EQ((Location{piece.chunk, piece.chunk_offset + piece.bytes - 1}), locate(policy, at - 1));
    }
    ASSERT_EQ(at, begin + bytes);
  }
  EXPECT_TRUE(pieces(kSmall, 7, 0).empty());
}

TEST(Layout, OffsetsBeyondFourGibibytesSurvive) {
  const Policy policy{.k = 30, .m = 2, .cell_bytes = kMaxCellBytes};
  const uint64_t offset = uint64_t{29} * (256 << 20) + 12'345;
  const Location at = locate(policy, offset);
  EXPECT_EQ(stripe_offset_of(policy, at.chunk, at.chunk_offset), offset);
  EXPECT_EQ(pieces(policy, offset, 1), (std::vector<Piece>{{at.chunk, at.chunk_offset, offset, 1}}));
}

}  // namespace
}  // namespace kintsugi::erasure

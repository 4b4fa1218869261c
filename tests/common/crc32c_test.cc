#include "common/base/crc32c.h"

#include <numeric>
#include <random>
#include <string_view>

#include <gtest/gtest.h>

namespace kintsugi {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::vector<std::byte> random_bytes(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (auto& byte : bytes)
    byte = static_cast<std::byte>(random());
  return bytes;
}

uint32_t bit_by_bit(std::span<const std::byte> data) {
  uint32_t state = 0xffffffff;
  for (const std::byte byte : data) {
    state ^= std::to_integer<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit)
      state = (state >> 1) ^ ((state & 1) != 0 ? 0x82f63b78u : 0u);
  }
  return ~state;
}

TEST(Crc32c, GivesThePublishedVectors) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
  std::vector<std::byte> buffer(32);
  EXPECT_EQ(crc32c(buffer), 0x8a9136aau);  // RFC 3720 B.4: 32 bytes of zeros
  std::fill(buffer.begin(), buffer.end(), std::byte{0xff});
  EXPECT_EQ(crc32c(buffer), 0x62a8ab43u);  // 32 bytes of ones
  for (size_t i = 0; i < buffer.size(); ++i)
    buffer[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(buffer), 0x46dd794eu);  // 0, 1, 2, ... 31
}

TEST(Crc32c, AgreesWithTheDefinitionForEveryLengthAndAlignment) {
  const auto data = random_bytes(700, 1);
  for (size_t begin = 0; begin < 17; ++begin) {
    for (size_t length = 0; begin + length <= data.size(); length += 1 + length / 40) {
      const auto part = std::span(data).subspan(begin, length);
      ASSERT_EQ(crc32c(part), bit_by_bit(part)) << "offset " << begin << ", length " << length;
    }
  }
}

TEST(Crc32c, CombinesTheCrcsOfTwoPartsWhereverTheCutIs) {
  const auto data = random_bytes(3 * kBlockBytes + 123, 2);
  const auto whole = std::span<const std::byte>(data);
  const uint32_t expected = crc32c(whole);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{63}, kBlockBytes - 1, kBlockBytes, kBlockBytes + 1,
                           2 * kBlockBytes + 123, data.size() - 1, data.size()}) {
    const auto a = whole.first(cut);
    const auto b = whole.subspan(cut);
    ASSERT_EQ(crc32c_combine(crc32c(a), crc32c(b), b.size()), expected) << "cut at " << cut;
  }
}

TEST(Crc32c, CombinesAcrossLengthsThatDoNotFitInMemory) {
  // (a ++ b) ++ c == a ++ (b ++ c), with b and c terabytes long.
  const uint32_t a = 0x12345678, b = 0x9abcdef0, c = 0x0badcafe;
  const size_t b_bytes = (size_t{1} << 42) + 12345, c_bytes = (size_t{1} << 45) + 678;
  EXPECT_EQ(crc32c_combine(crc32c_combine(a, b, b_bytes), c, c_bytes),
            crc32c_combine(a, crc32c_combine(b, c, c_bytes), b_bytes + c_bytes));
}

TEST(Crc32c, OfAChunkFollowsFromItsBlocks) {
  for (const size_t length : {size_t{0}, size_t{1}, kBlockBytes - 1, kBlockBytes, kBlockBytes + 1,
                              5 * kBlockBytes, 5 * kBlockBytes + 777}) {
    const auto data = random_bytes(length, length);
    const auto crcs = crc32c_blocks(data);
    ASSERT_EQ(crcs.size(), (length + kBlockBytes - 1) / kBlockBytes);
    ASSERT_EQ(crc32c_of_blocks(crcs, length), crc32c(data)) << "length " << length;
  }
}

TEST(Crc32c, NoticesEveryFlippedBit) {
  auto data = random_bytes(300, 3);
  const uint32_t expected = crc32c(data);
  for (size_t bit = 0; bit < 8 * data.size(); ++bit) {
    data[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_NE(crc32c(data), expected) << "bit " << bit;
    data[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(Crc32cDeathTest, RefusesBlockCrcsThatDoNotMatchTheLength) {
  const std::vector<uint32_t> crcs(2);
  EXPECT_DEATH(crc32c_of_blocks(crcs, kBlockBytes), "assertion failed");
}

}  // namespace
}  // namespace kintsugi
